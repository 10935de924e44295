-- What the host did, thread by thread. Derived once: nesting is costly and much depends on it.

-- The time from the first slice to the last, by trace.
CREATE OR REPLACE TABLE trace_span AS
SELECT trace_id, min(start_ns) AS start_ns, max(end_ns) AS end_ns
FROM slices
WHERE kind IN ('annotation', 'python', 'cpu_op', 'runtime', 'driver', 'kernel', 'memcpy', 'memset')
GROUP BY trace_id;

-- Names are few, slices are many. Data loading and compilation are what they are, whatever runs
-- inside them: such slices are `covering`.
CREATE OR REPLACE TEMP TABLE host_name AS
SELECT row_number() OVER ()::INTEGER AS name_id, kind, name, host_activity(kind, name) AS activity,
       kind = 'cpu_op' AS is_op, kind = 'python' AS is_python, is_python AND name LIKE 'nn.Module: %' AS is_module,
       activity IN ('input', 'compilation') AS is_covering,
       -- Of slices of one extent, which is the outer one.
       CASE kind WHEN 'annotation' THEN 0 WHEN 'python' THEN 1 WHEN 'cpu_op' THEN 2 ELSE 3 END::BIGINT AS rank
FROM (SELECT DISTINCT kind, name FROM slices WHERE kind IN ('annotation', 'python', 'cpu_op', 'runtime', 'driver'))
UNION ALL
SELECT 0, NULL, NULL, 'copy', FALSE, FALSE, FALSE, FALSE, 3;

CREATE OR REPLACE TEMP TABLE host_thread AS
SELECT row_number() OVER (ORDER BY trace_id, pid, tid)::INTEGER AS thread, trace_id, pid, tid, span.start_ns, span.end_ns
FROM (SELECT DISTINCT trace_id, pid, tid FROM slices WHERE kind IN ('annotation', 'python', 'cpu_op', 'runtime', 'driver'))
JOIN trace_span AS span USING (trace_id);

-- A launch of GPU ops that blocks is a copy, whatever its name.
CREATE OR REPLACE TEMP TABLE host_layer AS
SELECT thread, event_id, s.start_ns, s.end_ns, dur_ns, rank << 56 | event_id AS by_rank,
       is_op, is_python, is_module, is_covering, is_blocking IS NOT NULL AS is_launch,
       CASE WHEN is_blocking THEN 0 ELSE name_id END AS name_id
FROM slices AS s JOIN host_name AS n ON s.kind = n.kind AND s.name IS NOT DISTINCT FROM n.name
JOIN host_thread USING (trace_id, pid, tid)
LEFT JOIN (SELECT trace_id, launch_id AS event_id, bool_or(is_blocking) AS is_blocking FROM gpu_op_link GROUP BY ALL) USING (trace_id, event_id);

-- Starts (step 1) and ends (-1) of all slices in order, between the start and the end (0) of the
-- thread's time. Of slices that begin together the longer is the outer one, then the lower rank, then
-- the earlier in the file; slices that end together end inside out. Every thread ends as it began, at
-- depth 0: the counts run through all of them. `place` numbers the edges of all threads.
--
-- At one instant: ends of what lasted, the inner before the outer; starts, the outer before the inner;
-- ends of what took no time. A sort key of four integers is compared as a whole.
CREATE OR REPLACE TEMP TABLE host_edge AS
WITH edge AS (
    SELECT thread, start_ns AS at_ns, 4000000000000000000 - dur_ns AS by_turn, by_rank,
           1::TINYINT AS step, event_id, end_ns, name_id, is_op, is_python, is_module, is_covering, is_launch
    FROM host_layer
    UNION ALL
    SELECT thread, end_ns, CASE WHEN dur_ns > 0 THEN dur_ns - 5000000000000000000 ELSE 5000000000000000000 END, -by_rank,
           -1, event_id, NULL, name_id, is_op, is_python, is_module, is_covering, FALSE
    FROM host_layer
    UNION ALL
    SELECT thread, unnest([start_ns, end_ns]), unnest([-9, 9]) * 1000000000000000000, 0,
           0, NULL, NULL, NULL, FALSE, FALSE, FALSE, FALSE, FALSE
    FROM host_thread
)
SELECT
    thread, at_ns, step, event_id, end_ns, name_id, is_op, is_python, is_module, is_covering, is_launch,
    row_number() OVER () AS place,
    CASE WHEN lead(thread) OVER () = thread THEN lead(at_ns) OVER () END AS next_ns,
    -- Two counts are cheaper than a running sum.
    (count(*) FILTER (step = 1) OVER so_far - count(*) FILTER (step = -1) OVER so_far)::INTEGER AS depth,
    (count(*) FILTER (step = 1 AND is_op) OVER so_far - count(*) FILTER (step = -1 AND is_op) OVER so_far)::INTEGER AS op_depth,
    (count(*) FILTER (step = 1 AND is_python) OVER so_far - count(*) FILTER (step = -1 AND is_python) OVER so_far)::INTEGER AS python_depth,
    (count(*) FILTER (step = 1 AND is_module) OVER so_far - count(*) FILTER (step = -1 AND is_module) OVER so_far)::INTEGER AS module_depth,
    (count(*) FILTER (step = 1 AND is_covering) OVER so_far - count(*) FILTER (step = -1 AND is_covering) OVER so_far)::INTEGER AS covering_depth
FROM (SELECT * FROM edge ORDER BY thread, at_ns, by_turn, by_rank)
WINDOW so_far AS (ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW);

DROP TABLE host_layer;

CREATE OR REPLACE TEMP VIEW host_opening AS SELECT * FROM host_edge WHERE step = 1;

-- Each edge with the slice around it: around the one that begins, or that which is left when one ends.
CREATE OR REPLACE TEMP TABLE host_around AS
SELECT e.thread, e.place, e.at_ns, e.next_ns, e.step, e.event_id, e.name_id, e.depth,
       o.event_id AS around_id, o.name_id AS around_name_id, o.end_ns < e.at_ns OR o.event_id = e.event_id AS is_over,
       o.end_ns < e.end_ns AS is_outlasting
FROM host_edge AS e ASOF LEFT JOIN host_opening AS o
  ON e.thread = o.thread AND e.depth - greatest(e.step, 0) = o.depth AND e.place > o.place;

-- Counting starts and ends gives the slice around each edge wherever slices nest. Where an inner one
-- outlasts its outer one (clocks are rounded; a range is opened in __enter__ and closed in __exit__), that
-- slice may have ended: then it is the last begun of those that have not, by levels or outlasting.
CREATE OR REPLACE TEMP TABLE host_mended AS
WITH outside AS (
    SELECT place, thread, at_ns, unnest(range(1, depth - greatest(step, 0))) AS level
    FROM host_around WHERE is_over
),
outlasting AS (
    SELECT o.place, o.event_id, o.name_id, e.place AS end_place
    FROM host_around AS o JOIN host_around AS e ON o.thread = e.thread AND o.event_id = e.event_id
    WHERE o.is_outlasting AND e.step = -1
)
SELECT
    over.place, arg_max(o.event_id, o.place) AS around_id, arg_max(o.name_id, o.place) AS around_name_id
FROM (SELECT place FROM host_around WHERE is_over) AS over
LEFT JOIN (
    SELECT e.place AS inside, o.place, o.event_id, o.name_id
    FROM outside AS e ASOF JOIN host_opening AS o
      ON e.thread = o.thread AND e.level = o.depth AND e.place > o.place
    WHERE o.end_ns >= e.at_ns
    UNION ALL
    SELECT e.place, o.place, o.event_id, o.name_id
    FROM (SELECT place FROM host_around WHERE is_over) AS e JOIN outlasting AS o ON e.place > o.place AND e.place < o.end_place
) AS o ON over.place = o.inside
GROUP BY over.place;

UPDATE host_around SET around_id = m.around_id, around_name_id = m.around_name_id
FROM host_mended AS m WHERE host_around.place = m.place;

-- The edges inside a covering slice, with what the outermost one is about.
CREATE OR REPLACE TEMP TABLE host_covered AS
SELECT e.place, c.name_id
FROM (SELECT * FROM host_edge WHERE covering_depth > 0) AS e
ASOF JOIN (SELECT * FROM host_opening WHERE is_covering AND covering_depth = 1) AS c
  ON e.thread = c.thread AND e.place >= c.place
WHERE e.at_ns < c.end_ns;

-- The time of each thread cut wherever a slice begins or ends, from the trace's start to its end,
-- without gap or overlap: `event_id` is the innermost slice (NULL: none), `activity` what it is about.
-- `segment` grows with time; numbers may be missing.
CREATE OR REPLACE TABLE host_segment AS
SELECT
    t.trace_id, t.pid, t.tid, place AS segment, at_ns AS start_ns, next_ns AS end_ns,
    CASE step WHEN 1 THEN event_id ELSE around_id END AS event_id,
    coalesce(n.activity, 'untraced') AS activity
FROM host_around AS a JOIN host_thread AS t USING (thread)
LEFT JOIN host_covered AS c USING (place)
LEFT JOIN host_name AS n ON coalesce(c.name_id, CASE step WHEN 1 THEN a.name_id ELSE around_name_id END) = n.name_id
WHERE next_ns > at_ns;

-- Host slices in their tree: depth from 1, the enclosing slice, and time not spent in inner slices.
-- A slice's own time is what follows its start and what follows the ends of those directly inside it.
CREATE OR REPLACE TABLE host_slice AS
SELECT t.trace_id, own.event_id, t.pid, t.tid, own.depth, own.parent_id, own.self_ns
FROM (
    SELECT
        thread, CASE step WHEN 1 THEN event_id ELSE around_id END AS event_id, max(depth) FILTER (step = 1) AS depth,
        max(around_id) FILTER (step = 1) AS parent_id, sum(next_ns - at_ns)::BIGINT AS self_ns
    FROM host_around GROUP BY ALL
) AS own JOIN host_thread AS t USING (thread)
WHERE event_id IS NOT NULL;

-- The launches of GPU ops, where they stand among the edges of their threads.
CREATE OR REPLACE TEMP TABLE host_launch AS
SELECT t.trace_id, o.event_id AS launch_id, o.thread, o.place, o.op_depth, o.python_depth, o.module_depth
FROM host_opening AS o JOIN host_thread AS t USING (thread)
WHERE o.is_launch;
