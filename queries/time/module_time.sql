-- question: Which modules (nn.Module) take the time, on the host and on the GPU, forward and backward?
-- params trace
-- param top (integer, default 1000): the number of modules
-- columns trace_id, module
-- column parent (text): the module that called it most often; NULL: none
-- column depth (count): modules around it, itself included
-- column calls (count): forward calls
-- column host_ns (ns): sum of their durations, inner modules included
-- column host_self_ns (ns): host_ns without inner modules
-- column gpu_ns (ns): sum of the durations of GPU ops that the calls launched, inner modules included
-- column gpu_self_ns (ns): gpu_ns without inner modules
-- column backward_gpu_ns (ns): sum of the durations of GPU ops of the backward pass of its operators, inner
--     modules excluded; forward and backward belong together by sequence number
-- doubts: no_modules, unlinked_gpu_ops
WITH frame AS (
    SELECT trace_id, pid, tid, event_id, module_name(name) AS name, start_ns, end_ns, dur_ns
    FROM python_frames
    WHERE is_module AND trace_id = coalesce(getvariable('trace'), trace_id)
),
nest AS (FROM nested('frame')),
launched AS (FROM launched_inside('frame')),
cost AS (
    SELECT c.*, n.depth, n.parent_id, p.name AS parent
    FROM launched AS c JOIN nest AS n USING (trace_id, event_id)
    LEFT JOIN frame AS p ON n.trace_id = p.trace_id AND n.parent_id = p.event_id
),
inner_cost AS (
    SELECT trace_id, parent_id AS event_id, sum(dur_ns) AS host_ns, sum(gpu_ns) AS gpu_ns FROM cost
    GROUP BY ALL
),
forward AS (
    SELECT o.trace_id, o.sequence_number, f.name AS module
    FROM cpu_ops AS o JOIN host_site AS s ON o.trace_id = s.trace_id AND o.event_id = s.event_id
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
)
SELECT
    c.trace_id, c.name AS module, mode(parent ORDER BY parent) AS parent, min(depth)::BIGINT AS depth,
    count(*) AS calls, sum(c.dur_ns)::BIGINT AS host_ns,
    sum(c.dur_ns - coalesce(i.host_ns, 0))::BIGINT AS host_self_ns, sum(c.gpu_ns)::BIGINT AS gpu_ns,
    sum(c.gpu_ns - coalesce(i.gpu_ns, 0))::BIGINT AS gpu_self_ns,
    coalesce(any_value(b.gpu_ns), 0)::BIGINT AS backward_gpu_ns
FROM cost AS c LEFT JOIN inner_cost AS i USING (trace_id, event_id)
LEFT JOIN backward AS b ON c.trace_id = b.trace_id AND c.name = b.name
GROUP BY c.trace_id, c.name
ORDER BY gpu_ns DESC, host_ns DESC, module, trace_id
LIMIT coalesce(getvariable('top'), 1000)
