-- fact: A window's time in one activity, idle class and cause.
-- needs: whole_wait_part
-- of: windows
-- The windows' borders cut time into cells; each cell is added up once, and a window is the sum of its cells.
CREATE TABLE window_timeline_parts (
    trace_id INTEGER, -- the trace
    device_id BIGINT, kind VARCHAR, name VARCHAR, window_start_ns BIGINT, window_end_ns BIGINT,
    activity device_activity, idle_class idle_class, cause idle_cause, ns BIGINT,
    gaps     BIGINT   -- late gaps that contain it
);
WITH border AS (
    SELECT DISTINCT trace_id, device_id, unnest([-2 * thresholds().late_time_ns, start_ns, end_ns]) AS at_ns
    FROM windows
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
    FROM _scratch.whole_wait_part WHERE ns > 0
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
-- The part of each gap in each cell, and of everything except late gaps.
gap AS (
    SELECT trace_id, device_id, at_ns, activity, idle_class, cause,
           CASE WHEN idle_class = 'host_late' THEN op_id END AS late_op, sum(ns) AS ns,
           min(start_ns) AS first_ns, max(start_ns) AS last_ns
    FROM cut GROUP BY ALL
),
held AS (
    SELECT trace_id, device_id, at_ns, activity, idle_class, cause, sum(ns) AS ns,
           enum_code(activity)::INTEGER * 10000 + coalesce(enum_code(idle_class)::INTEGER + 1, 0) * 100
               + coalesce(enum_code(cause)::INTEGER + 1, 0) AS part,
           count(late_op) AS gaps, arg_min(late_op, first_ns) AS first_op,
           arg_max(late_op, last_ns) AS last_op
    FROM gap GROUP BY trace_id, device_id, at_ns, activity, idle_class, cause
),
-- A gap counts in the first of its cells.
counted AS (
    SELECT *, coalesce(first_op = lag(last_op) OVER (PARTITION BY trace_id, device_id, part ORDER BY at_ns),
               FALSE)::INTEGER AS goes_on
    FROM held
),
so_far AS MATERIALIZED (
    SELECT *, sum(ns) OVER by_then AS total_ns, sum(gaps - goes_on) OVER by_then AS total_gaps,
           lead(goes_on) OVER by_then AS is_continued
    FROM counted WINDOW by_then AS (PARTITION BY trace_id, device_id, part ORDER BY at_ns)
),
known AS (SELECT DISTINCT trace_id, device_id, part, activity, idle_class, cause FROM held)
SELECT
    a.trace_id, a.device_id, a.kind, a.name, a.start_ns AS window_start_ns, a.end_ns AS window_end_ns,
    a.activity, a.idle_class, a.cause, (u.total_ns - coalesce(f.total_ns, 0))::BIGINT AS ns,
    -- A gap that the window's start cuts counts if more of it follows.
    (u.total_gaps - coalesce(f.total_gaps, 0) + coalesce(f.is_continued, 0))::BIGINT AS gaps
FROM (FROM windows JOIN known USING (trace_id, device_id)) AS a
ASOF JOIN so_far AS u
  ON a.trace_id = u.trace_id AND a.device_id = u.device_id AND a.part = u.part AND a.end_ns > u.at_ns
ASOF LEFT JOIN so_far AS f
  ON a.trace_id = f.trace_id AND a.device_id = f.device_id AND a.part = f.part AND a.start_ns > f.at_ns
WHERE u.total_ns > coalesce(f.total_ns, 0)
