-- fact: A step on the host: one that the profiler marks; in a trace without marks, an outermost unit of work.
-- needs: step_mark, unit
-- Units are steps where several, recorded whole and one after the other, are of the process that launches
-- most. Most GPU ops need a launch, since steps are on the host's clock. Iterations are too short: see loops.
-- A run is judged by its main steps: those of the group of like steps that takes most time, of groups of
-- several steps if there is one. Few cold steps are left out, and if the first third takes longer than the
-- last, so are those before it settles.
CREATE TABLE steps (
    trace_id INTEGER,
    event_id BIGINT, -- the mark that starts first; negative: a unit, which nothing marks
    step     BIGINT, -- its number
    name VARCHAR, pid BIGINT, tid BIGINT, start_ns BIGINT, end_ns BIGINT, dur_ns BIGINT,
    group_id BIGINT, -- steps that do the same work have the same; NULL: a mark without work
    is_cold  BOOLEAN, -- first-call work takes a large part of it
    is_main  BOOLEAN  -- the run is judged by it and others
);
WITH unmarked AS (
    SELECT *, start_ns < max(end_ns) OVER (PARTITION BY trace_id, pid ORDER BY start_ns, unit_id
               ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS is_beside
    FROM unit
    WHERE level = 1 AND source <> 'single' AND kind <> 'iteration' AND is_whole
      AND trace_id NOT IN (SELECT trace_id FROM _scratch.step_mark)
      AND trace_id NOT IN (
          SELECT trace_id FROM gpu_ops GROUP BY trace_id HAVING 2 * count(launch_id) < count(*))
),
-- Several processes may launch in one mark.
marked AS (
    SELECT trace_id, start_ns, end_ns, arg_max(group_id, launches) AS group_id,
           max(complete_ns) - min(begin_ns) AS length_ns, bool_or(is_cold) AS is_cold
    FROM unit WHERE level = 1 AND source = 'mark' GROUP BY trace_id, start_ns, end_ns
),
step AS (
    SELECT m.*, group_id, coalesce(is_cold, FALSE) AS is_cold, coalesce(length_ns, dur_ns) AS length_ns
    FROM _scratch.step_mark AS m LEFT JOIN marked AS u USING (trace_id, start_ns, end_ns)
    UNION ALL
    SELECT trace_id, -1 - unit_id, row_number() OVER of_kind AS step, kind || ' ' || step, pid, tid,
           start_ns, end_ns, end_ns - start_ns, group_id, is_cold, complete_ns - begin_ns
    FROM unmarked
    WINDOW of_kind AS (PARTITION BY trace_id, pid, kind ORDER BY start_ns, unit_id)
    QUALIFY pid = arg_max(pid, launches) OVER (PARTITION BY trace_id)
        AND count(*) OVER (PARTITION BY trace_id) > 1
        AND coalesce(NOT bool_or(is_beside) OVER (PARTITION BY trace_id, pid), TRUE)
),
usual AS (
    SELECT *, NOT is_cold OR 4 * count_if(is_cold) OVER alike >= count(*) OVER alike AS is_usual
    FROM step WINDOW alike AS (PARTITION BY trace_id, group_id)
),
main AS (
    SELECT trace_id, group_id, list(length_ns ORDER BY start_ns) AS lengths
    FROM usual WHERE is_usual GROUP BY trace_id, group_id
    QUALIFY row_number() OVER (PARTITION BY trace_id
        ORDER BY count(*) > 1 DESC, sum(length_ns) DESC, min(start_ns)) = 1
),
settled AS (SELECT trace_id, group_id, settled_from(lengths) AS place FROM main)
SELECT s.* EXCLUDE (length_ns, is_usual),
       m.trace_id IS NOT NULL AND is_usual
           AND row_number() OVER (PARTITION BY s.trace_id, s.group_id, is_usual ORDER BY s.start_ns) >= place
FROM usual AS s LEFT JOIN settled AS m
  ON s.trace_id = m.trace_id AND s.group_id IS NOT DISTINCT FROM m.group_id
