-- The runs of a lake that have operators or GPU ops: the unit of work that most ranks repeat, and medians of
-- figures over these ranks ($medians). In order of time, or of name if the clock of a trace does not count
-- from the epoch ($after).
WITH figure AS (
    SELECT f.* EXCLUDE (unit, unit_ns), run, coalesce(unit, 'unit') AS unit,
           coalesce(unit_ns, span_ns) AS unit_ns, coalesce(base_time_ns, 0) + start_ns AS began_ns
    FROM run_figures AS f JOIN trace USING (trace_id) LEFT JOIN trace_span USING (trace_id)
),
marked AS (
    SELECT *, unit = mode(unit ORDER BY unit) OVER (PARTITION BY run) AS is_usual FROM figure
)
SELECT run, CASE WHEN bool_and(coalesce(began_ns, 0) > $after) THEN min(began_ns) END AS started_ns,
       count(*) AS ranks, any_value(unit) FILTER (is_usual) AS unit, $medians
FROM marked GROUP BY run
ORDER BY CASE WHEN bool_and(started_ns IS NOT NULL) OVER () THEN started_ns END, run
