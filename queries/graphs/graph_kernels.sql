-- question: Which kernels do CUDA graphs run, and what do they take per replay?
-- params top
-- columns device_id
-- column launch (text): the call that replays graphs
-- columns name, class, replays, count, total_ns
-- column per_replay_ns (ns): total_ns over replays
-- column share_of_graphs (fraction of the graphs' GPU time): total_ns over the sum over the device's graphs
-- doubts: no_graphs, graph_without_kernels, unlinked_gpu_ops
SELECT
    g.trace_id, g.device_id, launch_name AS launch, g.name, g.class, count(DISTINCT launch_id) AS replays,
    count(*) AS count, sum(g.dur_ns)::BIGINT AS total_ns, total_ns // replays AS per_replay_ns,
    sum(g.dur_ns)
    / nullif(sum(sum(g.dur_ns)) OVER (PARTITION BY g.trace_id, g.device_id), 0) AS share_of_graphs
FROM gpu_op_launch AS l JOIN gpu_ops AS g ON l.trace_id = g.trace_id AND l.event_id = g.event_id
WHERE is_graph AND is_asked(l.trace_id)
GROUP BY g.trace_id, g.device_id, launch_name, g.name, g.class
ORDER BY total_ns DESC, g.name, trace_id
LIMIT coalesce(getvariable('top'), 20)
