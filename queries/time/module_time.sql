-- question: Which modules (nn.Module) take the time, on the host and on the GPU, forward and backward?
-- since: 0.1
-- param top (integer, default 1000): number of modules
-- columns module, module_from
-- column parent (text): the module that called it most often; NULL: none
-- column depth (count): number of enclosing modules, itself included
-- columns calls, host_ns
-- column host_self_ns (ns): host time without inner modules
-- column gpu_ns (ns): sum of the durations of GPU ops that the calls launched, inner modules included: a
--     replay's kernels count for the modules that launched the graph, and in rows of their own for those that
--     they are of
-- column gpu_self_ns (ns): GPU time without inner modules
-- column backward_gpu_ns (ns): sum of the durations of GPU ops of the backward pass of its operators, inner
--     modules excluded; forward and backward belong together by sequence number
-- doubts: no_modules, unlinked_gpu_ops
WITH frame AS (
    SELECT trace_id, pid, tid, event_id, module_name(name) AS name, start_ns, end_ns, dur_ns
    FROM python_frames WHERE is_module AND is_asked(trace_id)
),
-- A call inside one of the same module is part of it.
outer_frame AS (
    SELECT trace_id, event_id, TRUE AS is_outer FROM frame
    QUALIFY is_outermost((trace_id, pid, tid, name), start_ns, end_ns)
),
cost AS (
    SELECT c.*, len(modules) AS depth, s.module_id AS parent_id, modules[-2] AS parent, is_outer
    FROM (FROM launched_inside('frame')) AS c JOIN thread_slice AS s USING (trace_id, event_id)
    JOIN module_paths AS p ON c.trace_id = p.trace_id AND c.event_id = p.module_id
    LEFT JOIN outer_frame AS o ON c.trace_id = o.trace_id AND c.event_id = o.event_id
),
inner_cost AS (
    SELECT trace_id, parent_id AS event_id, sum(dur_ns) AS host_ns, sum(gpu_ns) AS gpu_ns FROM cost
    GROUP BY ALL
),
forward AS (
    SELECT o.trace_id, o.sequence_number, f.name AS module
    FROM cpu_ops AS o JOIN thread_slice AS s ON o.trace_id = s.trace_id AND o.event_id = s.event_id
    LEFT JOIN frame AS f ON s.trace_id = f.trace_id AND s.module_id = f.event_id
    WHERE sequence_number IS NOT NULL AND NOT has(traits, 'backward')
        AND o.trace_id IN (SELECT trace_id FROM frame)
    QUALIFY row_number() OVER (PARTITION BY o.trace_id, o.sequence_number ORDER BY o.start_ns DESC) = 1
),
backward_op AS (
    SELECT trace_id, pid, tid, start_ns, end_ns, sequence_number FROM cpu_ops
    WHERE sequence_number IS NOT NULL AND has(traits, 'autograd_node')
),
backward_cost AS (FROM launched_inside('backward_op')),
backward AS (
    SELECT trace_id, module AS name, sum(gpu_ns) AS gpu_ns
    FROM backward_cost JOIN forward USING (trace_id, sequence_number) GROUP BY ALL
),
replayed AS (
    SELECT trace_id, launch_id, modules_from, is_backward, dur_ns, unnest(modules) AS module,
           unnest(list_prepend(NULL, modules[:-2])) AS parent, unnest(range(1, len(modules) + 1)) AS depth,
           depth = len(modules) AS is_inner
    FROM graph_site WHERE modules IS NOT NULL AND is_asked(trace_id)
)
SELECT
    c.trace_id, c.name AS module, 'call' AS module_from, mode(parent ORDER BY parent) AS parent,
    min(depth)::BIGINT AS depth, count(*) AS calls, sum_where(c.dur_ns, is_outer) AS host_ns,
    sum(c.dur_ns - coalesce(i.host_ns, 0))::BIGINT AS host_self_ns, sum_where(c.gpu_ns, is_outer) AS gpu_ns,
    sum(c.gpu_ns - coalesce(i.gpu_ns, 0))::BIGINT AS gpu_self_ns,
    coalesce(any_value(b.gpu_ns), 0)::BIGINT AS backward_gpu_ns
FROM cost AS c LEFT JOIN inner_cost AS i USING (trace_id, event_id)
LEFT JOIN backward AS b ON c.trace_id = b.trace_id AND c.name = b.name
GROUP BY c.trace_id, c.name
UNION ALL
SELECT
    trace_id, module, modules_from, mode(parent ORDER BY parent), min(depth), count(DISTINCT launch_id), NULL,
    NULL, sum_where(dur_ns, NOT is_backward), sum_where(dur_ns, NOT is_backward AND is_inner),
    sum_where(dur_ns, is_backward AND is_inner)
FROM replayed GROUP BY trace_id, module, modules_from
ORDER BY gpu_ns DESC, host_ns DESC NULLS LAST, module, module_from, trace_id
LIMIT coalesce(getvariable('top'), 1000)
