-- Time inside windows. A relation of windows, given by its name, has trace_id, device_id, kind, name,
-- start_ns and end_ns. Windows may overlap: the content of one is a running sum up to its end minus the sum
-- up to its start.

-- The timeline cut to each window. A window finds its intervals by their numbers, so the cost grows with the
-- number of intervals found and not with windows times intervals.
CREATE OR REPLACE VIEW window_timeline AS
WITH opening AS (
    SELECT w.*, t.place AS first_place
    FROM windows AS w ASOF JOIN gpu_timeline AS t
      ON w.trace_id = t.trace_id AND w.device_id = t.device_id AND w.start_ns >= t.start_ns
),
touched AS (
    SELECT o.*, unnest(generate_series(first_place, t.place)) AS place
    FROM opening AS o ASOF JOIN gpu_timeline AS t
      ON o.trace_id = t.trace_id AND o.device_id = t.device_id AND o.end_ns > t.start_ns
)
SELECT
    w.trace_id, w.device_id, w.kind, w.name, w.start_ns AS window_start_ns, w.end_ns AS window_end_ns,
    t.activity, t.idle_class, t.cause, t.op_id, t.launch_id, t.host_event_id,
    greatest(t.start_ns, w.start_ns) AS start_ns, least(t.end_ns, w.end_ns) AS end_ns,
    least(t.end_ns, w.end_ns) - greatest(t.start_ns, w.start_ns) AS dur_ns
FROM touched AS w JOIN gpu_timeline AS t USING (trace_id, device_id, place)
WHERE t.end_ns > w.start_ns AND t.start_ns < w.end_ns;

-- In traces with very many devices: the late gaps that the timeline stores as one row each, with their
-- launching threads.
CREATE OR REPLACE VIEW whole_wait AS
SELECT t.trace_id, t.device_id, t.place, t.start_ns, t.end_ns, t.op_id, t.launch_id, h.thread
FROM gpu_timeline AS t JOIN gpu_op_launch AS l ON t.trace_id = l.trace_id AND t.op_id = l.event_id
JOIN host_thread AS h ON l.trace_id = h.trace_id AND l.pid = h.pid AND l.tid = h.tid
WHERE t.idle_class = 'host_late' AND t.cause IS NULL;

-- The timeline with a cause for every late gap. It equals gpu_timeline except in traces with very many
-- devices: there, a segment of a thread's time becomes one row for each device that waits for it.
CREATE OR REPLACE VIEW gpu_timeline_by_cause AS
SELECT * FROM gpu_timeline WHERE idle_class IS DISTINCT FROM 'host_late' OR cause IS NOT NULL
UNION ALL
SELECT w.trace_id, w.device_id, w.place, greatest(s.start_ns, w.start_ns), least(s.end_ns, w.end_ns),
       'idle'::device_activity,
       'host_late'::idle_class, host_activity_of(s.activity_code)::VARCHAR::idle_cause, w.op_id, w.launch_id,
       s.event_id
FROM whole_wait AS w JOIN thread_segment AS s ON w.thread = s.thread AND s.end_ns > w.start_ns
    AND s.start_ns < w.end_ns;

-- These gaps, cut at the borders of the windows of a relation, so that each row is entirely in a window or
-- not at all: the thread's time in each activity meanwhile, `ns`.
CREATE OR REPLACE MACRO whole_waits_of(some_windows) AS TABLE
WITH gap AS (
    SELECT * REPLACE (lead(start_ns, 1, end_ns) OVER later AS end_ns)
    FROM (
        SELECT DISTINCT h.* REPLACE (greatest(h.start_ns, at_ns) AS start_ns)
        FROM (SELECT trace_id, device_id, unnest([NULL, start_ns, end_ns]) AS at_ns
            FROM query_table(some_windows)) AS w
        JOIN whole_wait AS h USING (trace_id, device_id) WHERE coalesce(at_ns, h.start_ns) < h.end_ns
    )
    WINDOW later AS (PARTITION BY trace_id, device_id, place ORDER BY start_ns)
),
done AS MATERIALIZED (
    SELECT thread, activity_code, start_ns, end_ns,
           coalesce(sum(end_ns - start_ns) OVER earlier, 0) AS before_ns
    FROM thread_segment SEMI JOIN gap USING (thread)
    WINDOW earlier AS (
        PARTITION BY thread, activity_code ORDER BY start_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
)
SELECT g.trace_id, g.device_id, host_activity_of(g.activity_code)::VARCHAR::idle_cause AS cause, g.op_id,
       g.start_ns, g.end_ns,
       coalesce(l.before_ns + least(l.end_ns, g.end_ns) - l.start_ns, 0)
       - coalesce(f.before_ns + least(f.end_ns, g.start_ns) - f.start_ns, 0) AS ns
FROM (FROM gap JOIN (SELECT DISTINCT thread, activity_code FROM done) USING (thread)) AS g
ASOF LEFT JOIN done AS l
  ON g.thread = l.thread AND g.activity_code = l.activity_code AND g.end_ns >= l.start_ns
ASOF LEFT JOIN done AS f
  ON g.thread = f.thread AND g.activity_code = f.activity_code AND g.start_ns >= f.start_ns;

-- The parts of each window, one row per activity, idle class and cause: its time `ns`, and `gaps`, the number
-- of late gaps that contain it. `some_waits` is whole_waits_of(some_windows), by its name.
-- The windows' borders cut time into cells; each cell is added up once, and a window is the sum of its cells.
CREATE OR REPLACE MACRO parts_of(some_windows, some_waits) AS TABLE
WITH border AS (
    SELECT DISTINCT trace_id, device_id, unnest([-2 * thresholds().late_time_ns, start_ns, end_ns]) AS at_ns
    FROM query_table(some_windows)
),
cell AS (
    SELECT *, lead(at_ns, 1, 2 * thresholds().late_time_ns)
               OVER (PARTITION BY trace_id, device_id ORDER BY at_ns) AS to_ns
    FROM border
),
piece AS (
    SELECT trace_id, device_id, activity, idle_class, cause, op_id, start_ns, end_ns, end_ns - start_ns AS ns
    FROM gpu_timeline WHERE idle_class IS DISTINCT FROM 'host_late' OR cause IS NOT NULL
    UNION ALL
    SELECT trace_id, device_id, 'idle'::device_activity, 'host_late'::idle_class, cause, op_id, start_ns,
           end_ns, ns
    FROM query_table(some_waits) WHERE ns > 0
),
begun AS (
    SELECT p.*, at_ns, to_ns FROM piece AS p ASOF JOIN cell AS c
      ON p.trace_id = c.trace_id AND p.device_id = c.device_id AND p.start_ns >= c.at_ns
),
-- Few pieces reach into the next cells.
cut AS (
    SELECT trace_id, device_id, at_ns, activity, idle_class, cause, op_id, start_ns,
           ns - greatest(0, end_ns - to_ns) AS ns
    FROM begun
    UNION ALL
    SELECT b.trace_id, b.device_id, c.at_ns, activity, idle_class, cause, op_id, c.at_ns,
           least(end_ns, c.to_ns) - c.at_ns
    FROM (FROM begun WHERE end_ns > to_ns) AS b JOIN cell AS c
      ON b.trace_id = c.trace_id AND b.device_id = c.device_id AND c.at_ns >= b.to_ns AND c.at_ns < b.end_ns
),
held AS (
    SELECT trace_id, device_id, at_ns, activity, idle_class, cause, sum(ns) AS ns,
           enum_code(activity)::INTEGER * 10000 + coalesce(enum_code(idle_class)::INTEGER + 1, 0) * 100
               + coalesce(enum_code(cause)::INTEGER + 1, 0) AS part,
           count(DISTINCT op_id) FILTER (idle_class = 'host_late') AS gaps,
           arg_min(op_id, start_ns) FILTER (idle_class = 'host_late') AS first_op,
           arg_max(op_id, start_ns) FILTER (idle_class = 'host_late') AS last_op
    FROM cut GROUP BY trace_id, device_id, at_ns, activity, idle_class, cause
),
-- A gap counts in the first of its cells.
counted AS (
    SELECT *, coalesce(first_op = lag(last_op) OVER (PARTITION BY trace_id, device_id, part ORDER BY at_ns),
               FALSE)::INTEGER AS goes_on
    FROM held
),
so_far AS MATERIALIZED (
    SELECT *, sum(ns) OVER by_then AS total_ns, sum(gaps - goes_on) OVER by_then AS total_gaps FROM counted
    WINDOW by_then AS (PARTITION BY trace_id, device_id, part ORDER BY at_ns)
),
known AS (SELECT DISTINCT trace_id, device_id, part, activity, idle_class, cause FROM held),
asked AS (FROM query_table(some_windows) JOIN known USING (trace_id, device_id))
SELECT
    a.trace_id, a.device_id, a.kind, a.name, a.start_ns AS window_start_ns, a.end_ns AS window_end_ns,
    a.activity, a.idle_class, a.cause, (u.total_ns - coalesce(f.total_ns, 0))::BIGINT AS ns,
    -- A gap that the window's start cuts counts if more of it follows.
    (u.total_gaps - coalesce(f.total_gaps, 0) + coalesce(n.goes_on, 0))::BIGINT AS gaps
FROM asked AS a
ASOF JOIN so_far AS u
  ON a.trace_id = u.trace_id AND a.device_id = u.device_id AND a.part = u.part AND a.end_ns > u.at_ns
ASOF LEFT JOIN so_far AS f
  ON a.trace_id = f.trace_id AND a.device_id = f.device_id AND a.part = f.part AND a.start_ns > f.at_ns
ASOF LEFT JOIN so_far AS n
  ON a.trace_id = n.trace_id AND a.device_id = n.device_id AND a.part = n.part AND a.start_ns <= n.at_ns
WHERE u.total_ns > coalesce(f.total_ns, 0);

-- How long each window's device computed, communicated, copied and was idle, from such parts (by their name):
-- these four add up to the window, and the classes of idle time add up to `idle_ns`. `device_in_launch_ns` is
-- the part of `device_ns` during which the op's launch call was in progress: nothing was queued.
-- `waits_for_host_ns` is the idle time that would not be there if the host had been ready: late gaps until
-- the launch call returned, device gaps in which the call was in progress, and the time after the last op.
-- And the ops that start in the window: `gpu_ops`, the `kernels` among them, and those with a launch
-- (`linked`). An op on a border belongs to the window that it opens; the GPU-active span also has one that
-- begins as it ends.
CREATE OR REPLACE MACRO partition_of(some_parts) AS TABLE
WITH part AS (
    SELECT
        trace_id, device_id, kind, name, window_start_ns AS start_ns, window_end_ns AS end_ns,
        window_end_ns - window_start_ns AS span_ns,
        sum_where(ns, activity = 'compute') AS compute_ns,
        sum_where(ns, activity = 'communication') AS exposed_comm_ns,
        sum_where(ns, activity = 'copy') AS exposed_memcpy_ns,
        sum_where(ns, activity = 'idle') AS idle_ns,
        sum_where(ns, idle_class = 'host_late') AS host_late_ns,
        sum_where(ns, idle_class = 'device') AS device_ns,
        sum_where(ns, idle_class = 'device' AND cause IS NOT NULL) AS device_in_launch_ns,
        sum_where(ns, idle_class = 'unlinked') AS unlinked_ns,
        sum_where(ns, idle_class = 'after_last_op') AS after_last_op_ns,
        sum_where(ns, activity <> 'idle') AS busy_ns,
        sum_where(ns, idle_class = 'host_late' AND cause IS DISTINCT FROM 'launch_latency'
            OR idle_class = 'device' AND cause IS NOT NULL OR idle_class = 'after_last_op')
            AS waits_for_host_ns
    FROM query_table(some_parts)
    GROUP BY ALL
),
so_far AS MATERIALIZED (
    SELECT trace_id, device_id, start_ns, sum(kernels) OVER up_to AS kernels, sum(ops) OVER up_to AS gpu_ops,
           sum(linked) OVER up_to AS linked
    FROM (
        SELECT trace_id, o.device_id, o.start_ns, count(*) FILTER (o.kind = 'kernel') AS kernels,
               count(*) AS ops, count(l.event_id) AS linked
        FROM gpu_ops AS o LEFT JOIN gpu_op_launch AS l USING (trace_id, event_id)
        GROUP BY ALL
    )
    WINDOW up_to AS (PARTITION BY trace_id, device_id ORDER BY start_ns)
)
SELECT p.*, coalesce(u.kernels - coalesce(f.kernels, 0), 0)::BIGINT AS kernels,
       coalesce(u.gpu_ops - coalesce(f.gpu_ops, 0), 0)::BIGINT AS gpu_ops,
       coalesce(u.linked - coalesce(f.linked, 0), 0)::BIGINT AS linked
FROM part AS p
ASOF LEFT JOIN so_far AS f
  ON p.trace_id = f.trace_id AND p.device_id = f.device_id AND p.start_ns > f.start_ns
ASOF LEFT JOIN so_far AS u
  ON p.trace_id = u.trace_id AND p.device_id = u.device_id
    AND p.end_ns + (p.kind = 'gpu_active')::INTEGER > u.start_ns;
