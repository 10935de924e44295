-- question: Which captured operators and modules do the kernels of graph replays come from?
-- since: 0.1
-- params top
-- columns device_id, operator
-- column dims (text): the operator's input shapes; NULL: not recorded
-- columns known_from, module, module_from
-- column capture_trace_id (id): the capture's trace, possibly another one; NULL: no capture found
-- columns replays, kernels, gpu_ns, share_of_replays
-- column matched_share (fraction of the places that can be compared): kernels whose names agree with the
--     capture's; NULL: the capture has no names, and matches only by the number of launches
-- column told_share (fraction of the kernels): kernels for which the capture has a name to compare
-- doubts: no_graphs, unknown_graphs, graph_without_kernels, unlinked_gpu_ops, annotations_unmatched
WITH whole AS (SELECT trace_id, device_id, sum(dur_ns) AS graphs_ns FROM replayed_kernels GROUP BY ALL)
SELECT
    s.trace_id, s.device_id, cpu_op AS operator, dims, op_from AS known_from, modules[-1] AS module,
    modules_from AS module_from, capture_trace_id,
    count(DISTINCT launch_id) AS replays, count(*) AS kernels, sum(dur_ns)::BIGINT AS gpu_ns,
    sum(dur_ns) / nullif(any_value(graphs_ns), 0) AS share_of_replays,
    min(matched_share) AS matched_share, min(told_share) AS told_share
FROM graph_site AS s JOIN whole AS w ON s.trace_id = w.trace_id AND s.device_id = w.device_id
WHERE is_asked(s.trace_id)
GROUP BY s.trace_id, s.device_id, cpu_op, dims, op_from, modules[-1], modules_from, capture_trace_id
ORDER BY gpu_ns DESC, operator, dims, module, trace_id
LIMIT coalesce(getvariable('top'), 20)
