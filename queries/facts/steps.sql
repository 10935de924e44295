-- fact: A step on the host: one that the profiler marks; in a trace without marks, an outermost unit of work.
-- needs: step_mark, unit
-- Units are steps where several, recorded whole and one after the other, are of the process that launches
-- most. Most GPU ops need a launch, since steps are on the host's clock. Iterations are too short: the loop
-- of many like ones is a step, unless they only copy.
-- A run is judged by its main steps: those of the group of like steps that takes most time, of groups of
-- several steps if there is one. Cold steps are left out if others are warm, and if the first third takes
-- longer than the last, those before it settles.
CREATE TABLE steps (
    trace_id INTEGER,
    event_id BIGINT, -- the mark that starts first; negative: a unit, which nothing marks
    step     BIGINT, -- its number
    name VARCHAR, pid BIGINT, tid BIGINT, start_ns BIGINT, end_ns BIGINT, dur_ns BIGINT,
    group_id BIGINT, -- steps that do the same work have the same; NULL: a mark without work
    is_cold  BOOLEAN, -- first-call work takes a large part of it
    is_main  BOOLEAN, -- the run is judged by it and others
    iterations BIGINT -- 1, or those of a loop
);
WITH unlinked AS (SELECT trace_id FROM gpu_ops GROUP BY trace_id HAVING 2 * count(launch_id) < count(*)),
unmarked AS (
    SELECT *, start_ns < max(end_ns) OVER (PARTITION BY trace_id, pid ORDER BY start_ns, unit_id
               ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS is_beside
    FROM unit
    WHERE level = 1 AND source <> 'single' AND kind <> 'iteration' AND is_whole
      AND trace_id NOT IN (SELECT trace_id FROM _scratch.step_mark)
      AND trace_id NOT IN (FROM unlinked)
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
many AS (
    SELECT trace_id, -1 - min(unit_id) AS event_id, count(*) || ' iterations' AS name, pid,
           arg_min(tid, u.start_ns) AS tid, min(u.start_ns) AS start_ns, max(u.end_ns) AS end_ns, group_id,
           max(complete_ns) - min(begin_ns) AS length_ns, count(*) AS iterations
    FROM unit AS u ANTI JOIN step USING (trace_id)
    WHERE level = 1 AND kind = 'iteration' AND is_whole AND trace_id NOT IN (FROM unlinked)
    GROUP BY trace_id, pid, group_id HAVING count(*) >= thresholds().unit_loop_least
),
loop AS (
    SELECT m.* FROM many AS m SEMI JOIN gpu_ops AS g
      ON m.trace_id = g.trace_id AND g.kind = 'kernel' AND launch_start_ns >= m.start_ns
          AND launch_start_ns < m.end_ns
    QUALIFY row_number() OVER (PARTITION BY m.trace_id ORDER BY length_ns DESC, m.start_ns) = 1
),
usual AS (
    SELECT *, NOT is_cold OR bool_and(is_cold) OVER (PARTITION BY trace_id, group_id) AS is_usual FROM step
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
           AND row_number() OVER (PARTITION BY s.trace_id, s.group_id, is_usual ORDER BY s.start_ns) >= place,
       1
FROM usual AS s LEFT JOIN settled AS m
  ON s.trace_id = m.trace_id AND s.group_id IS NOT DISTINCT FROM m.group_id
UNION ALL
SELECT trace_id, event_id, 1, name, pid, tid, start_ns, end_ns, end_ns - start_ns, group_id, FALSE, TRUE,
       iterations
FROM loop
