-- question: Which host slices keep the GPU waiting?
-- since: 0.1
-- params top
-- columns cause, culprit, gaps
-- column idle_ns (ns): GPU idle time during it, over all devices
-- column share_of_host_late (fraction of the trace's host-late idle time): idle_ns over that time
-- doubts: no_gpu_ops, unlinked_gpu_ops, no_stacks, starts_before_launch
SELECT
    t.trace_id, cause, e.name AS culprit, count(DISTINCT op_id) AS gaps,
    sum(t.end_ns - t.start_ns)::BIGINT AS idle_ns,
    sum(t.end_ns - t.start_ns)
    / sum(sum(t.end_ns - t.start_ns)) OVER (PARTITION BY t.trace_id) AS share_of_host_late
FROM gpu_timeline_by_cause AS t LEFT JOIN event AS e ON t.trace_id = e.trace_id
    AND t.host_event_id = e.event_id
WHERE idle_class = 'host_late' AND is_asked(t.trace_id)
GROUP BY t.trace_id, cause, e.name
ORDER BY idle_ns DESC, culprit, cause, trace_id
LIMIT coalesce(getvariable('top'), 20)
