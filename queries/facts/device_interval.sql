-- fact: An interval of a device's time, from the trace's start to its end, without gaps or overlaps.
-- needs: gpu_ops, trace_span
-- The starts and ends of ops in order of time: how many ops of each activity run from `at_ns` on. No op runs
-- at the end of a device's timeline, so one running sum covers all devices.
CREATE TABLE _scratch.device_interval AS
WITH edge AS (
    SELECT trace_id, device_id, start_ns AS at_ns, 1::TINYINT AS turn, 1::TINYINT AS step, event_id, activity
    FROM gpu_ops
    UNION ALL
    SELECT trace_id, device_id, end_ns, CASE WHEN end_ns > start_ns THEN 0 ELSE 2 END, -1, event_id, activity
    FROM gpu_ops
    UNION ALL
    SELECT trace_id, device_id, unnest([s.start_ns, s.end_ns]), unnest([-1, 3]), 0, NULL, NULL
    FROM (SELECT DISTINCT trace_id, device_id FROM gpu_ops) JOIN trace_span AS s USING (trace_id)
),
counted AS (
    SELECT
        trace_id, device_id, at_ns, row_number() OVER () AS place,
        CASE WHEN lead(trace_id) OVER () = trace_id
            AND lead(device_id) OVER () = device_id THEN lead(at_ns) OVER () END AS next_ns,
        lead(event_id) OVER () AS next_id,
        sum(step) FILTER (activity = 'compute') OVER so_far AS compute,
        sum(step) FILTER (activity = 'communication') OVER so_far AS communication,
        sum(step) FILTER (activity = 'copy') OVER so_far AS copy
    FROM (SELECT * FROM edge ORDER BY trace_id, device_id, at_ns, turn, event_id)
    WINDOW so_far AS (ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
)
SELECT
    trace_id, device_id, place, at_ns AS start_ns, next_ns AS end_ns, next_id,
    CASE WHEN compute > 0 THEN 'compute' WHEN communication > 0 THEN 'communication'
         WHEN copy > 0 THEN 'copy' ELSE 'idle' END::device_activity AS activity
FROM counted WHERE next_ns > at_ns
