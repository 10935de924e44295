-- fact: A step on the host: one that the profiler marks; in a trace without marks, an outermost unit of work.
-- needs: step_mark, unit
-- Units are steps where several, recorded whole and one after the other, are of the process that launches
-- most. Most GPU ops need a launch, since steps are on the host's clock. Iterations are too short: where
-- there are no steps, the longest loop of many iterations that run kernels stands for one.
-- A run is judged by its main steps: those of the group of like steps that takes most time, of groups of
-- several steps if there is one. Steps that are cut off are left out, few cold ones, and if the first third
-- takes longer than the last, those before it settles.
CREATE TABLE judged_steps (
    trace_id INTEGER,
    event_id BIGINT, -- the mark that starts first; negative: a unit, which nothing marks
    step     BIGINT, -- its number
    name VARCHAR, pid BIGINT, tid BIGINT, start_ns BIGINT, end_ns BIGINT, dur_ns BIGINT,
    group_id BIGINT, -- steps that do the same work have the same; NULL: a mark without work
    is_cold  BOOLEAN, -- first-call work takes a large part of it
    is_whole BOOLEAN, -- the recording, of the device too, does not cut it off
    iterations BIGINT, -- of a loop; NULL: a step
    is_main  BOOLEAN  -- the run is judged by it and others
);
WITH outermost AS (
    FROM unit WHERE level = 1 AND is_whole AND trace_id NOT IN (FROM unlaunched_traces)
),
unmarked AS (
    SELECT *, start_ns < max(end_ns) OVER (PARTITION BY trace_id, pid ORDER BY start_ns, unit_id
               ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS is_beside
    FROM outermost
    WHERE source <> 'single' AND kind <> 'iteration'
      AND trace_id NOT IN (SELECT trace_id FROM _scratch.step_mark)
),
-- Several processes may launch in one mark.
marked AS (
    SELECT trace_id, start_ns, end_ns, arg_max(group_id, launches) AS group_id,
           max(complete_ns) - min(begin_ns) AS length_ns, bool_or(is_cold) AS is_cold,
           bool_and(is_whole) AS is_whole
    FROM unit WHERE level = 1 AND source = 'mark' GROUP BY trace_id, start_ns, end_ns
),
step AS (
    SELECT m.*, group_id, coalesce(is_cold, FALSE) AS is_cold, coalesce(is_whole, TRUE) AS is_whole,
           NULL::BIGINT AS iterations,
           coalesce(length_ns, dur_ns) AS length_ns
    FROM _scratch.step_mark AS m LEFT JOIN marked AS u USING (trace_id, start_ns, end_ns)
    UNION ALL
    SELECT trace_id, -1 - unit_id, row_number() OVER of_kind AS step, kind || ' ' || step, pid, tid,
           start_ns, end_ns, end_ns - start_ns, group_id, is_cold, TRUE, NULL, complete_ns - begin_ns
    FROM unmarked
    WINDOW of_kind AS (PARTITION BY trace_id, pid, kind ORDER BY start_ns, unit_id)
    QUALIFY pid = arg_max(pid, launches) OVER (PARTITION BY trace_id)
        AND count(*) OVER (PARTITION BY trace_id) > 1
        AND coalesce(NOT bool_or(is_beside) OVER (PARTITION BY trace_id, pid), TRUE)
),
loop AS (
    SELECT u.trace_id, -1 - min(unit_id), NULL, count(*) || ' iterations' AS name, u.pid,
           arg_min(u.tid, u.start_ns), min(u.start_ns) AS start_ns, max(u.end_ns) AS end_ns,
           max(u.end_ns) - min(u.start_ns), group_id, FALSE, TRUE, count(*) AS iterations,
           max(complete_ns) - min(begin_ns) AS length_ns
    FROM outermost AS u ANTI JOIN step USING (trace_id) WHERE kind = 'iteration'
    GROUP BY u.trace_id, u.pid, group_id HAVING iterations >= thresholds().unit_loop_least
),
judged AS (
    FROM step UNION ALL
    FROM loop AS l SEMI JOIN gpu_ops AS g ON l.trace_id = g.trace_id AND g.kind = 'kernel'
        AND launch_start_ns >= l.start_ns AND launch_start_ns < l.end_ns
    QUALIFY row_number() OVER (PARTITION BY l.trace_id ORDER BY length_ns DESC, l.start_ns) = 1
),
usual AS (
    SELECT *, (NOT is_cold OR 4 * count_if(is_cold) OVER alike >= count(*) OVER alike)
               AND (is_whole OR NOT bool_or(is_whole) OVER alike) AS is_usual
    FROM judged WINDOW alike AS (PARTITION BY trace_id, group_id)
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
