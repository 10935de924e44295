-- question: Which kernels do CUDA graphs run, and how long do they take per replay?
-- since: 0.1
-- params top
-- columns device_id, launch, name, class, replays, count, total_ns
-- column per_replay_ns (ns): total_ns over replays
-- column share_of_graphs (fraction of the graphs' GPU time): total_ns over that of all the device's graphs
-- doubts: no_graphs, graph_without_kernels, unlinked_gpu_ops
SELECT
    trace_id, device_id, launch_name AS launch, name, class, count(DISTINCT launch_id) AS replays,
    count(*) AS count, sum(dur_ns)::BIGINT AS total_ns, total_ns // replays AS per_replay_ns,
    sum(dur_ns) / nullif(sum(sum(dur_ns)) OVER (PARTITION BY trace_id, device_id), 0) AS share_of_graphs
FROM gpu_ops WHERE is_graph AND is_asked(trace_id)
GROUP BY trace_id, device_id, launch_name, name, class
ORDER BY total_ns DESC, name, trace_id
LIMIT coalesce(getvariable('top'), 20)
