-- question: What did each host thread do, instant by instant?
-- since: 0.1
-- param from_segment (integer, default all): only segments from this one on
-- param to_segment (integer, default all): only segments up to this one
-- columns pid, tid, start_ns, dur_ns, cause, event_id
-- doubts: absurd_duration, no_stacks
-- If only calls were recorded, without operators or Python frames, the time between them is unknown.
SELECT trace_id, pid, tid, s.start_ns, s.end_ns - s.start_ns AS dur_ns,
       host_cause(host_activity_of(activity_code),
           NOT has_code OR s.end_ns - s.start_ns >= thresholds().unrecorded_ns) AS cause,
       event_id
FROM thread_segment AS s JOIN host_thread USING (thread) WHERE is_asked(trace_id)
  AND segment BETWEEN coalesce(getvariable('from_segment'), segment)
      AND coalesce(getvariable('to_segment'), segment)
ORDER BY trace_id, segment
