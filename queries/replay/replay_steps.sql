-- question: Which steps, or which loop, does a run consist of?
-- since: 0.1
-- columns name, pid, tid, start_ns, dur_ns
-- column is_marked (boolean): the trace marks it; otherwise it is a unit of work
-- column group_id (count): steps that do the same work have the same; -1: unknown
-- column is_cold (boolean): first-call work takes a large part of it
-- column is_whole (boolean): the recording, of the device too, does not cut it off
-- column is_main (boolean): the run is judged by it and others
-- doubts: no_steps
SELECT trace_id, name, pid, tid, start_ns, dur_ns, event_id >= 0 AS is_marked,
       coalesce(group_id, -1) AS group_id, is_cold, is_whole, is_main
FROM judged_steps WHERE is_asked(trace_id)
ORDER BY trace_id, start_ns
