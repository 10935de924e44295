-- question: What was recorded on any thread while the GPU waited and the launching thread recorded no call?
-- columns device_id
-- column name (text): the innermost slice of a thread, or the innermost range around the wait, but no step
-- column activity (text): what that is: allocation, sync, python ...
-- column idle_ns (ns): the part of these waits in which it was open on at least one thread
-- column share (fraction of these waits): idle_ns over the length of all of them
-- doubts: no_gpu_ops, unlinked_gpu_ops, starts_before_launch, no_stacks
WITH waited AS MATERIALIZED (
    SELECT t.trace_id, t.device_id, t.start_ns, t.end_ns
    FROM gpu_timeline_by_cause AS t JOIN main_device USING (trace_id, device_id)
    JOIN windows AS w ON t.trace_id = w.trace_id AND t.device_id = w.device_id AND w.kind = 'gpu_active'
        AND t.start_ns >= w.start_ns
    WHERE idle_class = 'host_late' AND cause = 'untraced' AND is_asked(t.trace_id)
),
total AS (SELECT trace_id, sum(end_ns - start_ns) AS ns FROM waited GROUP BY trace_id),
open AS (
    SELECT {'trace_id': w.trace_id, 'device_id': device_id, 'activity': h.activity,
            'name': name_of(h.trace_id, h.event_id)} AS key,
           greatest(w.start_ns, h.start_ns) AS start_ns, least(w.end_ns, h.end_ns) AS end_ns
    FROM waited AS w JOIN host_segment AS h
      ON w.trace_id = h.trace_id AND h.start_ns < w.end_ns AND h.end_ns > w.start_ns
    WHERE h.event_id IS NOT NULL AND (h.trace_id, h.event_id) NOT IN (SELECT (trace_id, event_id) FROM steps)
)
SELECT key.trace_id, key.device_id, key.name, key.activity, sum(end_ns - start_ns)::BIGINT AS idle_ns,
       idle_ns / any_value(ns) AS share
FROM interval_union('open') JOIN total ON key.trace_id = total.trace_id
GROUP BY key ORDER BY idle_ns DESC, key.name, key.trace_id
