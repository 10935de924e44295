-- fact: GPU ops whose recorded times cannot be.
-- into: recorder_finding
-- needs: gpu_ops
-- when: kind IN ('kernel', 'memcpy', 'memset')
WITH recorded AS (
    SELECT s.trace_id, count(*) FILTER (g.event_id IS NULL) AS far,
           count(*) FILTER (g.dur_ns < s.dur_ns) AS cut, sum(s.dur_ns - g.dur_ns)::BIGINT AS cut_ns
    FROM slices AS s LEFT JOIN gpu_ops AS g USING (trace_id, event_id)
    WHERE s.kind IN ('kernel', 'memcpy', 'memset') GROUP BY s.trace_id
)
SELECT trace_id, 'far_gpu_ops' AS code, 'warning' AS severity, far AS count,
       'GPU ops have a time far from all work of the host, and are left out of all sums' AS message,
       NULL::BIGINT AS time_ns, NULL::BIGINT AS event_id
FROM recorded WHERE far > 0
UNION ALL
SELECT trace_id, 'too_long_gpu_ops', 'warning', cut,
       'GPU ops were recorded as longer than later ones of their stream allow, by ' || duration_text(cut_ns)
           || ' in all: each counts until the next one starts', cut_ns, NULL
FROM recorded WHERE cut > 0
