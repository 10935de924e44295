-- The launches inside a slice of the host, however deep: launches of its own thread that begin during it.
-- (Launches of other threads, such as those of the backward pass, do not count.)

-- The slices of a relation (by its name; with trace_id, pid, tid, start_ns and end_ns) with what was
-- launched inside them: `gpu_ops`, `kernels`, and the sum of their durations, `gpu_ns`. `calls` is a relation
-- with columns of launch_call that counts fewer ops.
CREATE OR REPLACE MACRO launched_inside(host_slices, calls := 'launch_call') AS TABLE
SELECT
    s.*, coalesce(done.gpu_ops, 0) - coalesce(before.gpu_ops, 0) AS gpu_ops,
    coalesce(done.kernels, 0) - coalesce(before.kernels, 0) AS kernels,
    coalesce(done.gpu_ns, 0) - coalesce(before.gpu_ns, 0) AS gpu_ns
FROM query_table(host_slices) AS s
ASOF LEFT JOIN query_table(calls) AS before
  ON s.trace_id = before.trace_id AND s.pid = before.pid AND s.tid = before.tid
    AND s.start_ns > before.start_ns
ASOF LEFT JOIN query_table(calls) AS done
  ON s.trace_id = done.trace_id AND s.pid = done.pid AND s.tid = done.tid AND s.end_ns > done.start_ns;

-- Whether a slice is inside no other of the selected ones with equal `among`: (trace_id, pid, tid), its
-- thread; with the name, too, inside none of its name there, so that durations add up by name. For QUALIFY.
CREATE OR REPLACE MACRO is_outermost(among, start_ns, end_ns) AS (start_ns >= max(end_ns) OVER (
    PARTITION BY among ORDER BY start_ns, end_ns DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
)) IS NOT FALSE;

-- An operator inside no other, with the names of the one before it and of the one after it on its thread.
CREATE OR REPLACE VIEW outer_operators AS
SELECT o.trace_id, o.event_id, o.pid, o.tid, o.name, o.start_ns, o.dur_ns,
       lag(o.name) OVER in_turn AS name_before, lead(o.name) OVER in_turn AS name_after
FROM cpu_ops AS o JOIN thread_slice AS s ON o.trace_id = s.trace_id AND o.event_id = s.event_id
    AND s.outer_op_id = o.event_id
WHERE is_asked(o.trace_id)
WINDOW in_turn AS (PARTITION BY o.trace_id, o.pid, o.tid ORDER BY o.start_ns);

-- A call of a module inside no other, and whether torch.compile wraps it or a module in it.
CREATE OR REPLACE VIEW outer_modules AS
WITH frame AS (
    SELECT trace_id, event_id, pid, tid, module_name(name) AS name, start_ns, end_ns, dur_ns
    FROM python_frames WHERE is_module AND is_asked(trace_id)
),
compiled AS (FROM frame WHERE starts_with(name, 'OptimizedModule'))
SELECT f.*, c.start_ns IS NOT NULL AND c.start_ns < f.end_ns AS holds_compiled
FROM (FROM frame QUALIFY is_outermost((trace_id, pid, tid), start_ns, end_ns)) AS f
ASOF LEFT JOIN compiled AS c
  ON f.trace_id = c.trace_id AND f.pid = c.pid AND f.tid = c.tid AND f.start_ns <= c.start_ns;

-- The slices of a relation (trace_id, pid, tid, event_id, start_ns, end_ns, dur_ns) in their own tree:
-- `depth` from 1 and the slice of the relation around each. If slices begin together, the longer one is the
-- outer one, then the earlier one in the file.
CREATE OR REPLACE MACRO nested(host_slices) AS TABLE
WITH edge AS (
    SELECT trace_id, pid, tid, start_ns AS at_ns, 1::TINYINT AS step, -dur_ns AS turn, event_id AS by_place
    FROM query_table(host_slices)
    UNION ALL
    SELECT trace_id, pid, tid, end_ns, -1,
           CASE WHEN dur_ns > 0 THEN dur_ns - 2 * thresholds().late_time_ns ELSE 1 END, -event_id
    FROM query_table(host_slices)
),
-- Every thread begins and ends at depth 0, so one running sum covers all threads.
counted AS (
    SELECT trace_id, pid, tid, by_place AS event_id, step, row_number() OVER () AS place,
           (sum(step) OVER so_far)::BIGINT AS depth,
           lead(step) OVER () = 1 AS is_around
    FROM (SELECT * FROM edge ORDER BY trace_id, pid, tid, at_ns, turn, by_place)
    WINDOW so_far AS (ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
),
opening AS MATERIALIZED (SELECT * EXCLUDE step FROM counted WHERE step = 1)
SELECT i.trace_id, i.event_id, i.depth, o.event_id AS parent_id
FROM opening AS i ASOF LEFT JOIN (FROM opening WHERE is_around) AS o
  ON i.trace_id = o.trace_id AND i.pid = o.pid AND i.tid = o.tid AND i.depth - 1 = o.depth
      AND i.place > o.place;

-- GPU ops with the annotated ranges of the host around each: those around its launch (known_from: call), and
-- inside them those around its captured launch that began in the capture (as capture_from). An op has each
-- name once, where it is innermost.
CREATE OR REPLACE VIEW annotated_ops AS
WITH RECURSIVE range AS (
    SELECT trace_id, pid, tid, event_id, name, start_ns, end_ns, dur_ns FROM annotations
    WHERE side = 'host' AND is_asked(trace_id)
),
slice AS (
    SELECT * EXCLUDE name FROM range
    UNION ALL
    SELECT trace_id, pid, tid, launch_id, start_ns, start_ns, 0 FROM launch_call
    WHERE is_asked(trace_id)
),
nest AS MATERIALIZED (FROM nested('slice')),
around AS (
    SELECT n.trace_id, n.event_id, n.event_id AS at_id, n.parent_id, 0 AS level
    FROM nest AS n SEMI JOIN range USING (trace_id, event_id)
    UNION ALL
    SELECT a.trace_id, a.event_id, n.event_id, n.parent_id, level + 1
    FROM around AS a JOIN nest AS n ON a.trace_id = n.trace_id AND a.parent_id = n.event_id
),
-- Each range with its own name and the names of the ranges around it.
named AS (
    SELECT a.trace_id, a.event_id AS range_id, r.name AS annotation, min(level) = 0 AS is_innermost
    FROM around AS a JOIN range AS r ON a.trace_id = r.trace_id AND a.at_id = r.event_id
    GROUP BY ALL
)
SELECT l.trace_id, l.event_id, annotation, is_innermost AND ranges IS NULL AS is_innermost,
       'call' AS known_from
FROM nest AS n JOIN gpu_ops AS l ON n.trace_id = l.trace_id AND n.event_id = l.launch_id
JOIN named AS r ON n.trace_id = r.trace_id AND n.parent_id = range_id
LEFT JOIN graph_site AS g ON l.trace_id = g.trace_id AND l.event_id = g.event_id
WHERE list_contains(ranges, annotation) IS NOT TRUE
UNION ALL
SELECT trace_id, event_id, unnest(list_distinct(ranges)) AS annotation, annotation = ranges[-1], capture_from
FROM graph_site WHERE ranges IS NOT NULL AND is_asked(trace_id);
