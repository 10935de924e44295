-- The windows that shares are taken of, per device:
--   gpu_active  first GPU op's start to last one's end
--   step        a profiler step, as the host ran it
--   trace       the first event's start to the last one's end
CREATE OR REPLACE TABLE windows AS
WITH active AS (
    SELECT trace_id, device_id, min(start_ns) AS start_ns, max(end_ns) AS end_ns FROM gpu_ops GROUP BY ALL
)
SELECT trace_id, device_id, 'gpu_active' AS kind, 'GPU-active span' AS name, start_ns, end_ns FROM active
UNION ALL
-- A step that several threads annotate is one window.
SELECT DISTINCT trace_id, device_id, 'step', steps.name, steps.start_ns, steps.end_ns
FROM steps JOIN active USING (trace_id)
UNION ALL
SELECT trace_id, device_id, 'trace', 'whole trace', s.start_ns, s.end_ns
FROM trace_span AS s JOIN active USING (trace_id);

-- The timeline cut to each window. The intervals that a window touches are found by their places, so
-- that the work grows with what is found, however many windows there are.
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
