-- The timeline of each device, from the trace's start to its end, without gap or overlap:
-- `activity` is compute, communication (not covered by compute), copy (covered by neither) or idle.
-- Idle time also says why:
--   idle_class host_late      the op that ended the gap was launched after the gap began
--              device         it was launched before: dependency, launch latency, event wait
--              unlinked       its launch is not in the trace
--              after_last_op  no op followed
--   cause      what the launching thread did meanwhile: `launch` (or `copy`) during the call that
--              launched the op, `launch_latency` from its return until the op began; of device gaps,
--              only `launch`: the call was under way when the gap began, so nothing was queued
-- The ops' starts and ends in order, between the start and the end of the trace: how many of each
-- activity run from `at_ns` on, and the op that begins where this stretch ends (the earlier in the file
-- where several do). Every device ends as it began, with none: the counts run through all of them.
CREATE OR REPLACE TEMP TABLE device_interval AS
WITH edge AS (
    SELECT trace_id, device_id, start_ns AS at_ns, 1::TINYINT AS turn, 1::TINYINT AS step, event_id, activity FROM gpu_ops
    UNION ALL
    SELECT trace_id, device_id, end_ns, CASE WHEN end_ns > start_ns THEN 0 ELSE 2 END, -1, event_id, activity FROM gpu_ops
    UNION ALL
    SELECT trace_id, device_id, unnest([s.start_ns, s.end_ns]), unnest([-1, 3]), 0, NULL, NULL
    FROM (SELECT DISTINCT trace_id, device_id FROM gpu_ops) JOIN trace_span AS s USING (trace_id)
),
counted AS (
    SELECT
        trace_id, device_id, at_ns, row_number() OVER () AS place,
        CASE WHEN lead(trace_id) OVER () = trace_id AND lead(device_id) OVER () = device_id THEN lead(at_ns) OVER () END AS next_ns,
        lead(event_id) OVER () AS next_id,
        count(*) FILTER (step = 1 AND activity = 'compute') OVER so_far - count(*) FILTER (step = -1 AND activity = 'compute') OVER so_far AS compute,
        count(*) FILTER (step = 1 AND activity = 'communication') OVER so_far - count(*) FILTER (step = -1 AND activity = 'communication') OVER so_far AS communication,
        count(*) FILTER (step = 1 AND activity = 'copy') OVER so_far - count(*) FILTER (step = -1 AND activity = 'copy') OVER so_far AS copy
    FROM (SELECT * FROM edge ORDER BY trace_id, device_id, at_ns, turn, event_id)
    WINDOW so_far AS (ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
)
SELECT
    trace_id, device_id, place, at_ns AS start_ns, next_ns AS end_ns, next_id,
    CASE WHEN compute > 0 THEN 'compute' WHEN communication > 0 THEN 'communication'
         WHEN copy > 0 THEN 'copy' ELSE 'idle' END AS activity
FROM counted WHERE next_ns > at_ns;

-- Idle intervals with the op that ended them and its launch.
CREATE OR REPLACE TEMP TABLE gap AS
SELECT
    i.trace_id, i.device_id, i.place, i.start_ns, i.end_ns, next_id AS op_id, launch_id,
    least(launch_start_ns, i.end_ns) AS launch_start_ns,
    greatest(least(launch_start_ns, i.end_ns), least(launch_end_ns, i.end_ns)) AS launch_end_ns,
    CASE WHEN is_blocking OR host_activity('runtime', launch_name) = 'copy' THEN 'copy' ELSE 'launch' END AS call_cause,
    CASE WHEN op_id IS NULL THEN 'after_last_op'
         WHEN launch_id IS NULL THEN 'unlinked'
         WHEN launch_start_ns > i.start_ns THEN 'host_late'
         ELSE 'device' END AS idle_class
FROM device_interval AS i
LEFT JOIN gpu_op_link AS l ON i.trace_id = l.trace_id AND next_id = l.event_id
WHERE i.activity = 'idle';

-- `place` numbers the intervals of all devices in order of time; an idle one may have several pieces,
-- one for each cause.
CREATE OR REPLACE TABLE gpu_timeline AS
WITH late AS (SELECT * FROM gap WHERE idle_class = 'host_late'),
-- The thread's segments that the wait [gap start, launch) touches, found by their numbers.
touched AS (
    SELECT late.*, unnest(generate_series(s.segment, launch_place - 1)) AS segment
    FROM late JOIN (SELECT trace_id, launch_id, thread, place AS launch_place FROM host_launch) AS l USING (trace_id, launch_id)
    ASOF JOIN (SELECT thread, place AS segment, at_ns FROM host_around WHERE next_ns > at_ns) AS s
      ON l.thread = s.thread AND late.start_ns >= s.at_ns
)
SELECT trace_id, device_id, place, start_ns, end_ns, activity, NULL AS idle_class, NULL AS cause,
       NULL AS op_id, NULL AS launch_id, NULL AS host_event_id
FROM device_interval WHERE activity <> 'idle'
UNION ALL
SELECT trace_id, device_id, place, start_ns, end_ns, 'idle', idle_class, NULL, op_id, launch_id, NULL
FROM gap WHERE idle_class IN ('unlinked', 'after_last_op')
UNION ALL
SELECT trace_id, device_id, place, start_ns, launch_end_ns, 'idle', idle_class, call_cause, op_id, launch_id, launch_id
FROM gap WHERE idle_class = 'device' AND launch_end_ns > start_ns
UNION ALL
SELECT trace_id, device_id, place, greatest(start_ns, launch_end_ns), end_ns, 'idle', idle_class, NULL, op_id, launch_id, NULL
FROM gap WHERE idle_class = 'device' AND end_ns > launch_end_ns
UNION ALL
SELECT t.trace_id, device_id, place, greatest(t.start_ns, s.start_ns), least(t.launch_start_ns, s.end_ns),
       'idle', idle_class, s.activity, op_id, launch_id, s.event_id
FROM touched AS t JOIN host_segment AS s USING (segment)
WHERE least(t.launch_start_ns, s.end_ns) > greatest(t.start_ns, s.start_ns)
UNION ALL
SELECT trace_id, device_id, place, launch_start_ns, launch_end_ns, 'idle', idle_class, call_cause, op_id, launch_id, launch_id
FROM late WHERE launch_end_ns > launch_start_ns
UNION ALL
SELECT trace_id, device_id, place, launch_end_ns, end_ns, 'idle', idle_class, 'launch_latency', op_id, launch_id, launch_id
FROM late WHERE end_ns > launch_end_ns;
