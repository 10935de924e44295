-- question: What did each host thread do, instant by instant?
-- param from_segment (integer, default all): only from this segment of the table on
-- param to_segment (integer, default all): only up to this segment
-- columns pid, tid, start_ns, dur_ns, cause, event_id
-- doubts: absurd_duration, no_stacks
SELECT trace_id, pid, tid, start_ns, end_ns - start_ns AS dur_ns, host_cause(activity, dur_ns) AS cause,
       event_id
FROM host_segment WHERE is_asked(trace_id)
  AND segment BETWEEN coalesce(getvariable('from_segment'), segment)
      AND coalesce(getvariable('to_segment'), segment)
ORDER BY trace_id, segment
