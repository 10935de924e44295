-- fact: An idle interval with the op that ended it and its launch.
-- needs: device_interval, crowded_trace, late_clock
-- The join is by order: a sort can spill to disk when memory is short, a hash table of all ops cannot. Late
-- gaps of a crowded trace have no class here (see gpu_timeline_by_cause). Launches are at the time that the
-- device's clock showed, if that is late: `clock_ns` after the host's.
CREATE TABLE _scratch.gap AS
SELECT
    i.trace_id, i.device_id, i.place, i.start_ns, i.end_ns, next_id AS op_id,
    o.launch_id, coalesce(c.late_ns, 0) AS clock_ns,
    least(o.launch_start_ns + clock_ns, i.end_ns) AS launch_start_ns,
    greatest(least(o.launch_start_ns + clock_ns, i.end_ns), least(o.launch_end_ns + clock_ns, i.end_ns))
        AS launch_end_ns,
    CASE WHEN o.is_copy_call THEN 'copy' ELSE 'launch' END::idle_cause AS call_cause,
    o.launch_id IS NOT NULL AND o.launch_start_ns + clock_ns > i.start_ns AS is_late,
    CASE WHEN next_id IS NULL THEN 'after_last_op'
         WHEN o.launch_id IS NULL THEN 'unlinked'
         WHEN o.kind = 'host_function' AND o.start_ns <= i.start_ns THEN 'host_late'
         WHEN NOT is_late THEN 'device'
         WHEN i.trace_id NOT IN (FROM _scratch.crowded_trace) THEN 'host_late' END::idle_class AS idle_class
FROM (FROM _scratch.device_interval WHERE activity = 'idle') AS i
ASOF LEFT JOIN gpu_ops AS o ON i.trace_id = o.trace_id AND i.next_id >= o.event_id
LEFT JOIN late_clock AS c ON i.trace_id = c.trace_id AND i.device_id = c.device_id
