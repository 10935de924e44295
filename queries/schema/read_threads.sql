-- The threads of the trace in the variable `trace`: first segment, last segment and number of segments.
SELECT pid, tid, min(segment), max(segment), count(*) FROM host_segment
WHERE trace_id = getvariable('trace')
GROUP BY pid, tid ORDER BY min(segment)
