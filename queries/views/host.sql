-- What the host did, thread by thread. Derived once: nesting is costly and much depends on it.

CREATE OR REPLACE TEMP VIEW host_layer AS
SELECT trace_id, pid, tid, event_id, start_ns, end_ns, kind, name,
       CASE kind WHEN 'annotation' THEN 0 WHEN 'python' THEN 1 WHEN 'cpu_op' THEN 2 ELSE 3 END AS rank
FROM slices WHERE kind IN ('annotation', 'python', 'cpu_op', 'runtime', 'driver');

CREATE OR REPLACE TEMP TABLE host_edge AS SELECT * FROM slice_edges('host_layer');
CREATE OR REPLACE TEMP TABLE host_counted AS SELECT * FROM slice_parents('host_edge');

-- Counting starts and ends gives the slice around each edge wherever slices nest. Where an inner one
-- outlasts its outer one (clocks are rounded), that slice may have ended: the way leads up from it to
-- one that has not.
CREATE OR REPLACE TEMP TABLE host_mended AS
WITH RECURSIVE climb AS (
    SELECT e.trace_id, e.event_id, e.step, e.at_ns, 1 AS turn, c.parent_id AS around_id
    FROM host_edge AS e JOIN host_counted AS c USING (trace_id, event_id)
    JOIN host_layer AS s ON c.trace_id = s.trace_id AND c.parent_id = s.event_id
    WHERE s.end_ns < e.at_ns
    UNION ALL
    SELECT climb.trace_id, climb.event_id, climb.step, climb.at_ns, turn + 1, c.parent_id
    FROM climb JOIN host_layer AS s ON climb.trace_id = s.trace_id AND climb.around_id = s.event_id
    JOIN host_counted AS c ON climb.trace_id = c.trace_id AND climb.around_id = c.event_id
    WHERE s.end_ns < climb.at_ns
)
SELECT trace_id, event_id, step,
       CASE WHEN count(*) = count(around_id) THEN arg_max(around_id, turn) END AS around_id
FROM climb GROUP BY trace_id, event_id, step;

-- The slice around each slice as it begins (`parent_id`) and when it has ended.
CREATE OR REPLACE TEMP TABLE host_parent AS
SELECT c.trace_id, c.pid, c.tid, c.event_id, c.depth,
       CASE WHEN opens.event_id IS NULL THEN c.parent_id ELSE opens.around_id END AS parent_id,
       CASE WHEN closes.event_id IS NULL THEN c.parent_id ELSE closes.around_id END AS after_id
FROM host_counted AS c
LEFT JOIN host_mended AS opens ON c.trace_id = opens.trace_id AND c.event_id = opens.event_id AND opens.step = 1
LEFT JOIN host_mended AS closes ON c.trace_id = closes.trace_id AND c.event_id = closes.event_id AND closes.step = -1;

-- The time from the first slice to the last, by trace.
CREATE OR REPLACE TABLE trace_span AS
SELECT trace_id, min(start_ns) AS start_ns, max(end_ns) AS end_ns
FROM slices
WHERE kind IN ('annotation', 'python', 'cpu_op', 'runtime', 'driver', 'kernel', 'memcpy', 'memset')
GROUP BY trace_id;

-- Names are few, slices are many.
CREATE OR REPLACE TEMP TABLE host_name AS
SELECT kind, name, host_activity(kind, name) AS activity
FROM (SELECT DISTINCT kind, name FROM host_layer);

CREATE OR REPLACE TEMP TABLE host_busy_with AS
SELECT trace_id, event_id, pid, tid, start_ns, end_ns, rank,
       CASE WHEN (trace_id, event_id) IN (SELECT (trace_id, launch_id) FROM gpu_op_link WHERE is_blocking)
            THEN 'copy' ELSE activity END AS activity
FROM host_layer JOIN host_name USING (kind, name);

-- Data loading and compilation are what they are, whatever runs inside them.
CREATE OR REPLACE TEMP VIEW covering_layer AS
SELECT * FROM host_busy_with WHERE activity IN ('input', 'compilation');
CREATE OR REPLACE TEMP TABLE covering_edge AS SELECT * FROM slice_edges('covering_layer');
CREATE OR REPLACE TEMP TABLE covering AS
SELECT c.* FROM covering_layer AS c
JOIN covering_edge AS e USING (trace_id, event_id) WHERE e.step = 1 AND e.depth = 1;

-- The time of each thread cut wherever a slice begins or ends, from the trace's start to its end,
-- without gap or overlap: `event_id` is the innermost slice (NULL: none), `activity` what it is about.
CREATE OR REPLACE TABLE host_segment AS
WITH cut AS (
    SELECT trace_id, pid, tid, place, at_ns AS start_ns,
           CASE WHEN step = 1 THEN event_id ELSE after_id END AS event_id
    FROM host_edge LEFT JOIN host_parent USING (trace_id, pid, tid, event_id)
    UNION ALL
    SELECT DISTINCT trace_id, pid, tid, 0, trace_span.start_ns, NULL
    FROM host_edge JOIN trace_span USING (trace_id)
),
segment AS (
    SELECT cut.*, coalesce(lead(cut.start_ns) OVER (PARTITION BY trace_id, pid, tid ORDER BY place),
                           trace_span.end_ns) AS end_ns
    FROM cut JOIN trace_span USING (trace_id)
),
known AS (
    SELECT segment.trace_id, segment.pid, segment.tid, segment.start_ns, segment.end_ns, segment.event_id,
           coalesce(busy.activity, 'untraced') AS activity
    FROM segment LEFT JOIN host_busy_with AS busy
      ON segment.trace_id = busy.trace_id AND segment.event_id = busy.event_id
    WHERE segment.end_ns > segment.start_ns
)
SELECT
    known.trace_id, known.pid, known.tid,
    row_number() OVER (PARTITION BY known.trace_id, known.pid, known.tid ORDER BY known.start_ns) AS segment,
    known.start_ns, known.end_ns, known.event_id,
    CASE WHEN known.start_ns < covering.end_ns THEN covering.activity ELSE known.activity END AS activity
FROM known ASOF LEFT JOIN covering
  ON known.trace_id = covering.trace_id AND known.pid = covering.pid AND known.tid = covering.tid
 AND known.start_ns >= covering.start_ns;

-- Host slices in their tree: depth from 1, the enclosing slice, and time not spent in inner slices.
CREATE OR REPLACE TABLE host_slice AS
SELECT trace_id, event_id, pid, tid, depth, parent_id, coalesce(self_ns, 0) AS self_ns
FROM host_parent LEFT JOIN (
    SELECT trace_id, event_id, sum(end_ns - start_ns)::BIGINT AS self_ns
    FROM host_segment WHERE event_id IS NOT NULL GROUP BY ALL
) USING (trace_id, event_id);
