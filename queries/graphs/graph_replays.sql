-- question: How long did each replay of a CUDA graph take, and is it like the other replays?
-- since: 0.1
-- columns device_id
-- column graph (id): replays with the same first op and number of ops belong to one graph; NULL: no ops
-- columns launch_id, start_ns, call_ns
-- column gpu_ops (count): number of ops that the replay ran; 0: not recorded
-- columns busy_ns
-- column span_ns (ns): from the first op's start to the last op's end
-- column gap_ns (ns): span_ns minus busy_ns: waiting inside the graph
-- column first_delay_ns (ns): delay from the launch to the first op
-- column slower_than_usual (ratio): span_ns over the median replay's of the same graph
-- column is_like_others (boolean): its ops have the same names in the same order as most replays of its graph
-- doubts: no_graphs, graph_without_kernels, unlinked_gpu_ops
WITH launch AS (SELECT * FROM launches WHERE launched_kind = 'graph' AND is_asked(trace_id)),
op AS (
    SELECT {'trace_id': trace_id, 'launch_id': launch_id, 'device_id': device_id} AS key, event_id, name,
           start_ns, end_ns
    FROM gpu_ops WHERE is_graph AND is_asked(trace_id)
),
busy AS (SELECT key, sum(end_ns - start_ns)::BIGINT AS busy_ns FROM interval_union('op') GROUP BY key),
replay AS (
    SELECT key, count(*) AS gpu_ops, min(start_ns) AS first_ns, max(end_ns) - min(start_ns) AS span_ns,
           arg_min(name, (start_ns, event_id)) AS first_op,
           hash(list(name ORDER BY start_ns, event_id)) AS names
    FROM op GROUP BY key
),
alike AS (
    SELECT key.trace_id AS trace_id, key.device_id AS device_id, first_op, gpu_ops,
           percentile(list(span_ns), 50) AS usual_ns, mode(names ORDER BY first_ns) AS usual_names,
           row_number() OVER (PARTITION BY key.trace_id, key.device_id ORDER BY min(first_ns)) AS graph
    FROM replay GROUP BY key.trace_id, key.device_id, first_op, gpu_ops
)
SELECT
    l.trace_id, r.key.device_id AS device_id, graph, l.event_id AS launch_id, l.start_ns, l.dur_ns AS call_ns,
    coalesce(r.gpu_ops, 0) AS gpu_ops, busy_ns, span_ns,
    span_ns - busy_ns AS gap_ns, first_ns - l.start_ns AS first_delay_ns,
    span_ns / nullif(usual_ns, 0) AS slower_than_usual, names = usual_names AS is_like_others
FROM launch AS l LEFT JOIN replay AS r ON l.trace_id = r.key.trace_id AND l.event_id = r.key.launch_id
LEFT JOIN busy AS b ON r.key = b.key
LEFT JOIN alike AS u ON r.key.trace_id = u.trace_id AND r.key.device_id = u.device_id
    AND r.first_op = u.first_op AND r.gpu_ops = u.gpu_ops
ORDER BY l.trace_id, l.start_ns, device_id
