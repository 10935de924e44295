-- question: Before what does the GPU wait for long while nothing is recorded on the launching thread?
-- since: 0.1
-- columns device_id
-- column next_name (text): what the thread did next: the slice that ends the stretch, with # for each number
-- column last_name (text): what it had done before most of these stretches
-- column holes (count): number of such stretches of a millisecond or more, in which the GPU waited
-- column idle_ns (ns): their length
-- column share (fraction of all such stretches): idle_ns over the length of all of them
-- column shortest_ns (ns): the shortest of them
-- column longest_ns (ns): the longest of them
-- doubts: no_gpu_ops, unlinked_gpu_ops, starts_before_launch, no_stacks
WITH waited AS (
    SELECT t.trace_id, t.device_id, t.start_ns, t.end_ns, h.thread
    FROM gpu_timeline AS t JOIN main_device USING (trace_id, device_id)
    JOIN windows AS w ON t.trace_id = w.trace_id AND t.device_id = w.device_id AND w.kind = 'gpu_active'
        AND t.start_ns >= w.start_ns
    JOIN launch_call AS o ON t.trace_id = o.trace_id AND t.launch_id = o.launch_id
    JOIN host_thread AS h ON o.trace_id = h.trace_id AND o.pid = h.pid AND o.tid = h.tid
    WHERE idle_class = 'host_late' AND cause = 'untraced' AND is_asked(t.trace_id)
        AND t.end_ns - t.start_ns >= thresholds().unrecorded_ns
),
-- The thread's segments before, during and after the wait leave no gaps.
around AS (
    SELECT w.*, l.event_id AS last_id, n.event_id AS event_id
    FROM waited AS w JOIN thread_segment AS s USING (thread, end_ns)
    JOIN thread_segment AS n ON w.thread = n.thread AND w.end_ns = n.start_ns
    LEFT JOIN thread_segment AS l ON s.thread = l.thread AND s.start_ns = l.end_ns
),
named AS (
    SELECT e.trace_id, event_id, name FROM event_row AS e JOIN label USING (label_id)
    WHERE (e.trace_id, event_id) IN (
        SELECT (trace_id, unnest([last_id, event_id])) FROM around)
)
SELECT a.trace_id, a.device_id, coalesce(folded_name(n.name), 'unnamed') AS next_name,
       mode(l.name ORDER BY l.name) AS last_name, count(*) AS holes,
       sum(end_ns - start_ns)::BIGINT AS idle_ns,
       sum(end_ns - start_ns) / sum(sum(end_ns - start_ns)) OVER (PARTITION BY a.trace_id) AS share,
       min(end_ns - start_ns) AS shortest_ns, max(end_ns - start_ns) AS longest_ns
FROM around AS a JOIN named AS n USING (trace_id, event_id)
LEFT JOIN named AS l ON a.trace_id = l.trace_id AND a.last_id = l.event_id
GROUP BY a.trace_id, a.device_id, folded_name(n.name)
ORDER BY idle_ns DESC, next_name, a.trace_id
