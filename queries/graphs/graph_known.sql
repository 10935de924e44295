-- question: For what share of graph kernels are operator, module and line known, and from which source?
-- since: 0.1
-- columns device_id
-- column what (text): operator, module or line
-- column known_from (text): graph launch (what launched the graph, whose kernels all share it), capture by
--     node or capture by order (the graph's capture, joined so), annotation (in the kernels' arguments) or
--     annotations file; NULL: not known
-- columns kernels
-- column share_of_kernels (fraction of the replays' kernels): the share of kernels with this source
-- columns gpu_ns, share_of_replays
-- doubts: no_graphs, unknown_graphs, graph_without_kernels, unlinked_gpu_ops, annotations_unmatched
WITH origin AS (
    SELECT trace_id, device_id, dur_ns, unnest(['operator', 'module', 'line']) AS what,
           unnest([known_from, module_from, line_from]) AS known_from
    FROM gpu_op_origin WHERE is_graph AND kind = 'kernel' AND is_asked(trace_id)
)
SELECT
    trace_id, device_id, what, known_from, count(*) AS kernels,
    count(*) / sum(count(*)) OVER alike AS share_of_kernels, sum(dur_ns)::BIGINT AS gpu_ns,
    sum(dur_ns) / nullif(sum(sum(dur_ns)) OVER alike, 0) AS share_of_replays
FROM origin GROUP BY trace_id, device_id, what, known_from
WINDOW alike AS (PARTITION BY trace_id, device_id, what)
ORDER BY trace_id, device_id, what = 'line', what = 'module', gpu_ns DESC, known_from
