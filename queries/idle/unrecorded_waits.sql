-- question: What was recorded on any thread while the GPU waited and the launching thread recorded no call?
-- since: 0.1
-- columns device_id
-- column name (text): innermost slice of a thread, or innermost range (not a step) around the wait
-- column activity (text): activity of that slice: allocation, sync, python ...
-- column idle_ns (ns): the part of these waits during which it was open on at least one thread
-- column share (fraction of these waits): idle_ns over the length of all these waits
-- doubts: no_gpu_ops, unlinked_gpu_ops, starts_before_launch, no_stacks
WITH waited AS MATERIALIZED (
    SELECT t.trace_id, t.device_id, t.start_ns, t.end_ns
    FROM gpu_timeline_by_cause AS t JOIN main_device USING (trace_id, device_id)
    JOIN windows AS w ON t.trace_id = w.trace_id AND t.device_id = w.device_id AND w.kind = 'gpu_active'
        AND t.start_ns >= w.start_ns
    WHERE idle_class = 'host_late' AND cause = 'untraced' AND is_asked(t.trace_id)
),
total AS (SELECT trace_id, sum(end_ns - start_ns) AS ns FROM waited GROUP BY trace_id),
-- A thread's segments are numbered in order and leave no gaps: from the one at a wait's start to its end's.
ended AS (
    SELECT w.*, s.segment AS last_segment
    FROM (FROM waited JOIN (SELECT trace_id, thread FROM host_thread) USING (trace_id)) AS w
    ASOF JOIN thread_segment AS s ON w.thread = s.thread AND w.end_ns > s.start_ns
),
during AS (
    SELECT w.*, unnest(range(s.segment, last_segment + 1)) AS segment
    FROM ended AS w ASOF JOIN thread_segment AS s ON w.thread = s.thread AND w.start_ns >= s.start_ns
),
open AS (
    SELECT {'trace_id': w.trace_id, 'device_id': w.device_id, 'activity': host_activity_of(activity_code),
            'name': l.name} AS key,
           greatest(w.start_ns, s.start_ns) AS start_ns, least(w.end_ns, s.end_ns) AS end_ns
    FROM during AS w JOIN thread_segment AS s USING (thread, segment)
    JOIN event_row AS e ON w.trace_id = e.trace_id AND s.event_id = e.event_id
    JOIN label AS l USING (label_id)
    WHERE l.name <> '' AND (e.trace_id, e.event_id) NOT IN (SELECT (trace_id, event_id) FROM steps)
)
SELECT key.trace_id, key.device_id, key.name, key.activity, sum(end_ns - start_ns)::BIGINT AS idle_ns,
       idle_ns / any_value(ns) AS share
FROM interval_union('open') JOIN total ON key.trace_id = total.trace_id
GROUP BY key ORDER BY idle_ns DESC, key.name, key.trace_id
