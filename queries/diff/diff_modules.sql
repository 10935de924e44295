-- question: Which modules (nn.Module) cost more or less in b than in a?
-- since: 0.1
-- of: several traces
-- params a, b, top
-- columns module
-- column a_calls (count per step): forward calls in a (not captured), plus replays that ran it
-- column b_calls (count per step): the same count in b
-- columns a_host_ns, b_host_ns, a_gpu_ns, b_gpu_ns, change_ns
-- doubts: no_modules, unlinked_gpu_ops
WITH frame AS (
    SELECT trace_id, pid, tid, module_name(name) AS name, start_ns, end_ns, dur_ns FROM python_frames
    WHERE is_module AND trace_id IN (SELECT trace_id FROM compared_runs)
),
outer_frame AS (FROM frame QUALIFY is_outermost((trace_id, pid, tid, name), start_ns, end_ns)),
-- A replay's kernels count already for the modules around its launch.
replayed AS (
    SELECT s.trace_id, launch_id, dur_ns,
           unnest(list_filter(list_distinct(s.modules),
               lambda each: NOT list_contains(coalesce(a.modules, []), each))) AS name
    FROM graph_site AS s LEFT JOIN thread_slice AS h ON s.trace_id = h.trace_id AND s.launch_id = h.event_id
    LEFT JOIN module_paths AS a ON h.trace_id = a.trace_id AND h.module_id = a.module_id
),
part AS (
    SELECT trace_id, name, 1 AS count, 0 AS host_ns, 0 AS gpu_ns FROM frame
    WHERE NOT is_capturing(trace_id, pid, start_ns, 0)
    UNION ALL
    SELECT trace_id, name, 0, dur_ns, gpu_ns FROM launched_inside('outer_frame')
    UNION ALL
    SELECT trace_id, name, count(DISTINCT launch_id), 0, sum(dur_ns) FROM replayed GROUP BY ALL
),
summed AS (
    SELECT side, name AS item, sum(count) / steps AS count, (sum(host_ns) // steps)::BIGINT AS host_ns,
           (sum(gpu_ns) // steps)::BIGINT AS gpu_ns
    FROM part JOIN compared_runs USING (trace_id) GROUP BY side, name, steps
),
compared AS (
    SELECT item, unnest(side_by_side(side, count, host_ns, gpu_ns)) FROM summed GROUP BY item
)
SELECT item AS module, a_count AS a_calls, b_count AS b_calls, a_host_ns, b_host_ns, a_gpu_ns, b_gpu_ns,
       change_ns
FROM compared
ORDER BY abs(change_ns) DESC, module
LIMIT coalesce(getvariable('top'), 20)
