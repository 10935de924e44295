-- fact: An idle interval with the op that ended it and its launch.
-- needs: device_interval, gpu_op_launch, crowded_trace
-- The join is by order and then checks the match: a sort can spill to disk when memory is short, a hash table
-- of all launches cannot. Late gaps of a crowded trace have no class here (see gpu_timeline_by_cause).
CREATE TABLE _scratch.gap AS
SELECT
    i.trace_id, i.device_id, i.place, i.start_ns, i.end_ns, next_id AS op_id,
    coalesce(l.event_id = next_id, FALSE) AS is_match, CASE WHEN is_match THEN l.launch_id END AS launch_id,
    least(l.launch_start_ns, i.end_ns) AS launch_start_ns,
    greatest(least(l.launch_start_ns, i.end_ns), least(l.launch_end_ns, i.end_ns)) AS launch_end_ns,
    CASE WHEN l.is_copy_call THEN 'copy' ELSE 'launch' END::idle_cause AS call_cause,
    is_match AND l.launch_start_ns > i.start_ns AS is_late,
    CASE WHEN next_id IS NULL THEN 'after_last_op'
         WHEN NOT is_match THEN 'unlinked'
         WHEN NOT is_late THEN 'device'
         WHEN i.trace_id NOT IN (FROM _scratch.crowded_trace) THEN 'host_late' END::idle_class AS idle_class
FROM (FROM _scratch.device_interval WHERE activity = 'idle') AS i
ASOF LEFT JOIN gpu_op_launch AS l ON i.trace_id = l.trace_id AND i.next_id >= l.event_id
