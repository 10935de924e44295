-- question: What did each host thread do, instant by instant?
-- param trace (integer, default all): the trace_id to look at
-- param from_segment (integer, default all): only from this of its table's segments on
-- param to_segment (integer, default all): only up to this one
-- column trace_id (id): the trace
-- column pid (id): the process
-- column tid (id): the thread
-- column start_ns (ns): where the stretch begins; a thread's stretches cover the trace without gap or overlap
-- column dur_ns (ns): how long it is
-- column cause (text): what it is about: launch, dispatch, python, sync, input, allocation, compilation or
--     copy
-- column event_id (id): the innermost slice; NULL: none was recorded
-- doubts: absurd_duration, no_stacks
SELECT trace_id, pid, tid, start_ns, end_ns - start_ns AS dur_ns, host_cause(activity) AS cause, event_id
FROM host_segment
WHERE trace_id = coalesce(getvariable('trace'), trace_id)
  AND segment BETWEEN coalesce(getvariable('from_segment'), segment)
      AND coalesce(getvariable('to_segment'), segment)
ORDER BY trace_id, segment
