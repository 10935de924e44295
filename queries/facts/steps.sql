-- fact: A step on the host: one that the profiler marks; in a trace without marks, an outermost unit of work.
-- needs: step_mark, unit
-- Units are steps where several, recorded whole and one after the other, are of the process that launches most.
-- Most GPU ops need a launch, since steps are on the host's clock. Iterations are too short to be steps, and what
-- nothing repeats is none.
CREATE TABLE steps (
    trace_id INTEGER,
    event_id BIGINT, -- the mark that starts first; negative: a unit, which nothing marks
    step     BIGINT, -- its number
    name VARCHAR, pid BIGINT, tid BIGINT, start_ns BIGINT, end_ns BIGINT, dur_ns BIGINT,
    group_id BIGINT  -- steps that do the same work have the same; NULL: a mark without work
);
WITH unmarked AS (
    SELECT *, start_ns < max(end_ns) OVER (PARTITION BY trace_id, pid ORDER BY start_ns, unit_id
               ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS is_beside
    FROM unit
    WHERE level = 1 AND source <> 'single' AND kind <> 'iteration' AND is_whole
      AND trace_id NOT IN (SELECT trace_id FROM _scratch.step_mark)
      AND trace_id NOT IN (SELECT trace_id FROM gpu_ops GROUP BY trace_id HAVING 2 * count(launch_id) < count(*))
)
SELECT m.*, group_id
FROM _scratch.step_mark AS m LEFT JOIN (FROM unit WHERE level = 1 AND source = 'mark') AS u
  ON m.trace_id = u.trace_id AND m.start_ns = u.start_ns AND m.end_ns = u.end_ns
UNION ALL
SELECT trace_id, -1 - unit_id, row_number() OVER of_kind AS step, kind || ' ' || step, pid, tid, start_ns, end_ns,
       end_ns - start_ns, group_id
FROM unmarked
WINDOW of_kind AS (PARTITION BY trace_id, pid, kind ORDER BY start_ns, unit_id)
QUALIFY pid = arg_max(pid, launches) OVER (PARTITION BY trace_id) AND count(*) OVER (PARTITION BY trace_id) > 1
    AND coalesce(NOT bool_or(is_beside) OVER (PARTITION BY trace_id, pid), TRUE)
