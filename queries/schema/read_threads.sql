-- The threads of each trace: first segment, last segment and number of segments.
SELECT trace_id, pid, tid, min(segment) AS first_segment, max(segment) AS last_segment, count(*) AS segments
FROM host_segment
GROUP BY trace_id, pid, tid
