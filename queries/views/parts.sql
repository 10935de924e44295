-- The parts of each window of a relation (trace_id, device_id, kind, name, start_ns, end_ns), one row per
-- activity, idle class and cause: its time `ns`, and `gaps`, the number of late gaps that contain it. Windows
-- may overlap: the borders of all windows cut the timeline into cells, and a window is the difference of two
-- running sums over the cells.
CREATE OR REPLACE MACRO parts_of(some_windows) AS TABLE
WITH border AS (
    SELECT DISTINCT trace_id, device_id, unnest([start_ns, end_ns]) AS at_ns FROM query_table(some_windows)
),
cell AS (
    SELECT trace_id, device_id, at_ns AS start_ns, lead(at_ns) OVER later AS end_ns,
           row_number() OVER later AS number
    FROM border WINDOW later AS (PARTITION BY trace_id, device_id ORDER BY at_ns)
),
opening AS MATERIALIZED (
    SELECT c.*, t.place AS first_place
    FROM cell AS c ASOF JOIN gpu_timeline AS t
      ON c.trace_id = t.trace_id AND c.device_id = t.device_id AND c.start_ns >= t.start_ns
    WHERE c.end_ns IS NOT NULL
),
touched AS (
    SELECT o.*, unnest(generate_series(first_place, t.place)) AS place
    FROM opening AS o ASOF JOIN gpu_timeline AS t
      ON o.trace_id = t.trace_id AND o.device_id = t.device_id AND o.end_ns > t.start_ns
),
cut AS (
    SELECT w.trace_id, w.device_id, w.number, w.place, t.activity, t.idle_class, t.cause, t.op_id,
           greatest(t.start_ns, w.start_ns) AS start_ns, least(t.end_ns, w.end_ns) AS end_ns
    FROM touched AS w JOIN gpu_timeline AS t USING (trace_id, device_id, place)
    WHERE t.end_ns > w.start_ns AND t.start_ns < w.end_ns
),
-- For late gaps that the timeline stores as one row each: their thread's time in each activity up to their
-- start and end.
whole AS MATERIALIZED (
    SELECT c.*, h.thread FROM (SELECT * FROM cut WHERE idle_class = 'host_late' AND cause IS NULL) AS c
    JOIN whole_wait AS h USING (trace_id, device_id, place)
),
done AS MATERIALIZED (
    SELECT thread, activity_code, start_ns, end_ns,
           coalesce(sum(end_ns - start_ns) OVER earlier, 0) AS before_ns
    FROM thread_segment WHERE thread IN (SELECT thread FROM whole)
    WINDOW earlier AS (
        PARTITION BY thread, activity_code ORDER BY start_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
),
asked AS (
    SELECT w.*, k.activity_code FROM whole AS w
    JOIN (SELECT DISTINCT thread, activity_code FROM done) AS k USING (thread)
),
spread AS (
    SELECT a.* EXCLUDE (cause, thread, activity_code, start_ns, end_ns),
           host_activity_of(a.activity_code)::VARCHAR::idle_cause AS cause,
           coalesce(l.before_ns + least(l.end_ns, a.end_ns) - l.start_ns, 0)
           - coalesce(f.before_ns + least(f.end_ns, a.start_ns) - f.start_ns, 0) AS ns
    FROM asked AS a
    ASOF LEFT JOIN done AS l ON a.thread = l.thread AND a.activity_code = l.activity_code
        AND a.end_ns >= l.start_ns
    ASOF LEFT JOIN done AS f ON a.thread = f.thread AND a.activity_code = f.activity_code
        AND a.start_ns >= f.start_ns
),
piece AS (
    SELECT trace_id, device_id, number, place, activity, idle_class, cause, op_id, end_ns - start_ns AS ns
    FROM cut
    WHERE idle_class IS DISTINCT FROM 'host_late' OR cause IS NOT NULL
    UNION ALL
    SELECT trace_id, device_id, number, place, activity, idle_class, cause, op_id, ns FROM spread WHERE ns > 0
),
-- One number for the activity, class and cause of a piece.
part AS MATERIALIZED (
    SELECT p.trace_id, p.device_id, p.number, activity, idle_class, cause,
           enum_code(activity)::INTEGER * 10000 + coalesce(enum_code(idle_class)::INTEGER + 1, 0) * 100
           + coalesce(enum_code(cause)::INTEGER + 1, 0) AS part,
           sum(ns)::BIGINT AS ns,
           count(DISTINCT op_id) FILTER (idle_class = 'host_late' AND opened.first_place IS NULL) AS gaps,
           list(DISTINCT op_id)
               FILTER (idle_class = 'host_late' AND opened.first_place IS NOT NULL) AS cut_gaps
    FROM piece AS p LEFT JOIN (SELECT DISTINCT trace_id, device_id, first_place FROM opening) AS opened
      ON p.trace_id = opened.trace_id AND p.device_id = opened.device_id AND p.place = opened.first_place
    GROUP BY ALL
),
-- Gaps that a border may cut: the cells in which they have a part, each with the cell before.
again AS MATERIALIZED (
    SELECT trace_id, device_id, part, number,
           lag(number) OVER (PARTITION BY trace_id, device_id, part, op_id ORDER BY number) AS before
    FROM (SELECT trace_id, device_id, part, number, unnest(cut_gaps) AS op_id FROM part
        WHERE cut_gaps IS NOT NULL)
),
opened_gaps AS (
    SELECT trace_id, device_id, part, number, count(*) AS gaps FROM again WHERE before IS NULL GROUP BY ALL
),
-- A gap that the window's start cuts counts again if more of the same part follows inside the window.
cut_at AS (
    SELECT trace_id, device_id, part, number AS again_number,
           unnest(generate_series(before + 1, number)) AS number
    FROM again WHERE before IS NOT NULL
),
so_far AS MATERIALIZED (
    SELECT p.trace_id, p.device_id, p.part, p.number, sum(p.ns) OVER in_order AS ns,
           sum(p.gaps + coalesce(o.gaps, 0)) OVER in_order AS gaps
    FROM part AS p LEFT JOIN opened_gaps AS o USING (trace_id, device_id, part, number)
    WINDOW in_order AS (PARTITION BY p.trace_id, p.device_id, p.part
        ORDER BY p.number ROWS UNBOUNDED PRECEDING)
),
known AS (SELECT DISTINCT trace_id, device_id, part, activity, idle_class, cause FROM part),
framed AS (
    SELECT w.*, k.* EXCLUDE (trace_id, device_id), f.number AS first_number, l.number AS end_number
    FROM query_table(some_windows) AS w JOIN known AS k USING (trace_id, device_id)
    JOIN cell AS f ON w.trace_id = f.trace_id AND w.device_id = f.device_id AND w.start_ns = f.start_ns
    JOIN cell AS l ON w.trace_id = l.trace_id AND w.device_id = l.device_id AND w.end_ns = l.start_ns
)
SELECT
    w.trace_id, w.device_id, w.kind, w.name, w.start_ns AS window_start_ns, w.end_ns AS window_end_ns,
    w.activity, w.idle_class, w.cause,
    (coalesce(l.ns, 0) - coalesce(f.ns, 0))::BIGINT AS ns,
    (coalesce(l.gaps, 0) - coalesce(f.gaps, 0) + CASE WHEN c.again_number < w.end_number THEN 1
        ELSE 0 END)::BIGINT AS gaps
FROM framed AS w
ASOF LEFT JOIN so_far AS l ON w.trace_id = l.trace_id AND w.device_id = l.device_id AND w.part = l.part
    AND w.end_number > l.number
ASOF LEFT JOIN so_far AS f ON w.trace_id = f.trace_id AND w.device_id = f.device_id AND w.part = f.part
    AND w.first_number > f.number
LEFT JOIN cut_at AS c ON w.trace_id = c.trace_id AND w.device_id = c.device_id AND w.part = c.part
    AND w.first_number = c.number
WHERE coalesce(l.ns, 0) > coalesce(f.ns, 0);

-- How long each window's device computed, communicated, copied and was idle: these four add up to the window,
-- and the classes of idle time add up to `idle_ns`. `device_in_launch_ns` is the part of `device_ns` during
-- which the op's launch call was in progress: nothing was queued. `waits_for_host_ns` is the idle time that
-- would not be there if the host had been ready: late gaps until the launch call returned, device gaps in
-- which the call was in progress, and the time after the last op.
CREATE OR REPLACE MACRO partition_of(some_parts) AS TABLE
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
        OR idle_class = 'device' AND cause IS NOT NULL OR idle_class = 'after_last_op') AS waits_for_host_ns
FROM query_table(some_parts)
GROUP BY ALL;

CREATE OR REPLACE VIEW window_partition AS FROM partition_of('window_timeline_parts');
