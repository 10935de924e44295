-- The runs of a lake that have operators or GPU ops, with medians of figures over their ranks ($medians): in
-- order of time, or of name if the clock of a trace does not count from the epoch ($after).
WITH began AS (
    SELECT trace_id, run, coalesce(base_time_ns, 0) + start_ns AS ns
    FROM trace LEFT JOIN trace_span USING (trace_id)
)
SELECT run, CASE WHEN bool_and(coalesce(ns, 0) > $after) THEN min(ns) END AS started_ns,
       count(*) AS ranks, $medians
FROM run_figures JOIN began USING (trace_id) GROUP BY run
ORDER BY CASE WHEN bool_and(started_ns IS NOT NULL) OVER () THEN started_ns END, run
