-- The threads of the trace that the variable `trace` names: their first and last segment, and how many they
-- have.
SELECT pid, tid, min(segment), max(segment), count(*) FROM host_segment
WHERE trace_id = getvariable('trace')
GROUP BY pid, tid ORDER BY min(segment)
