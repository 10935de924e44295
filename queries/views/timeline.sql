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
CREATE OR REPLACE TEMP TABLE device_interval AS
WITH edge AS (
    SELECT trace_id, device_id, start_ns AS at_ns, activity, 1 AS step FROM gpu_ops
    UNION ALL
    SELECT trace_id, device_id, end_ns, activity, -1 FROM gpu_ops
    UNION ALL
    SELECT trace_id, device_id, unnest([s.start_ns, s.end_ns]), NULL, 0
    FROM (SELECT DISTINCT trace_id, device_id FROM gpu_ops) JOIN trace_span AS s USING (trace_id)
),
change AS (
    SELECT trace_id, device_id, at_ns,
           coalesce(sum(step) FILTER (activity = 'compute'), 0) AS compute,
           coalesce(sum(step) FILTER (activity = 'communication'), 0) AS communication,
           coalesce(sum(step) FILTER (activity = 'copy'), 0) AS copy
    FROM edge GROUP BY ALL
)
SELECT
    trace_id, device_id, at_ns AS start_ns, lead(at_ns) OVER in_order AS end_ns,
    CASE WHEN sum(compute) OVER in_order > 0 THEN 'compute'
         WHEN sum(communication) OVER in_order > 0 THEN 'communication'
         WHEN sum(copy) OVER in_order > 0 THEN 'copy'
         ELSE 'idle' END AS activity
FROM change
WINDOW in_order AS (PARTITION BY trace_id, device_id ORDER BY at_ns);

-- Idle intervals with the op that ended them (the first to start; the earlier in the file where
-- several do) and its launch.
CREATE OR REPLACE TEMP TABLE gap AS
WITH first_op AS (
    SELECT trace_id, device_id, start_ns, min(event_id) AS op_id FROM gpu_ops GROUP BY ALL
)
SELECT
    i.trace_id, i.device_id, i.start_ns, i.end_ns, op_id, launch_id, pid, tid,
    least(launch_start_ns, i.end_ns) AS launch_start_ns,
    greatest(least(launch_start_ns, i.end_ns), least(launch_end_ns, i.end_ns)) AS launch_end_ns,
    CASE WHEN is_blocking OR host_activity('runtime', launch_name) = 'copy' THEN 'copy' ELSE 'launch' END AS call_cause,
    CASE WHEN op_id IS NULL THEN 'after_last_op'
         WHEN launch_id IS NULL THEN 'unlinked'
         WHEN launch_start_ns > i.start_ns THEN 'host_late'
         ELSE 'device' END AS idle_class
FROM device_interval AS i
LEFT JOIN first_op AS f ON i.trace_id = f.trace_id AND i.device_id = f.device_id AND i.end_ns = f.start_ns
LEFT JOIN gpu_op_link AS l ON f.trace_id = l.trace_id AND op_id = l.event_id
WHERE i.activity = 'idle' AND i.end_ns > i.start_ns;

CREATE OR REPLACE TEMP TABLE timeline_piece AS
WITH late AS (SELECT * FROM gap WHERE idle_class = 'host_late'),
-- The thread's segments that the wait [gap start, launch) touches, found by their numbers.
reach AS (
    SELECT late.*, s.segment AS first_segment
    FROM late ASOF JOIN host_segment AS s
      ON late.trace_id = s.trace_id AND late.pid = s.pid AND late.tid = s.tid AND late.start_ns >= s.start_ns
),
touched AS (
    SELECT reach.*, unnest(generate_series(first_segment, s.segment)) AS segment
    FROM reach ASOF JOIN host_segment AS s
      ON reach.trace_id = s.trace_id AND reach.pid = s.pid AND reach.tid = s.tid AND reach.launch_start_ns > s.start_ns
)
SELECT trace_id, device_id, start_ns, end_ns, activity, NULL AS idle_class, NULL AS cause,
       NULL AS op_id, NULL AS launch_id, NULL AS host_event_id
FROM device_interval WHERE activity <> 'idle' AND end_ns > start_ns
UNION ALL
SELECT trace_id, device_id, start_ns, end_ns, 'idle', idle_class, NULL, op_id, launch_id, NULL
FROM gap WHERE idle_class IN ('unlinked', 'after_last_op')
UNION ALL
SELECT trace_id, device_id, start_ns, launch_end_ns, 'idle', idle_class, call_cause, op_id, launch_id, launch_id
FROM gap WHERE idle_class = 'device' AND launch_end_ns > start_ns
UNION ALL
SELECT trace_id, device_id, greatest(start_ns, launch_end_ns), end_ns, 'idle', idle_class, NULL, op_id, launch_id, NULL
FROM gap WHERE idle_class = 'device' AND end_ns > launch_end_ns
UNION ALL
SELECT t.trace_id, device_id, greatest(t.start_ns, s.start_ns), least(t.launch_start_ns, s.end_ns),
       'idle', idle_class, s.activity, op_id, launch_id, s.event_id
FROM touched AS t JOIN host_segment AS s USING (trace_id, pid, tid, segment)
WHERE least(t.launch_start_ns, s.end_ns) > greatest(t.start_ns, s.start_ns)
UNION ALL
SELECT trace_id, device_id, launch_start_ns, launch_end_ns, 'idle', idle_class, call_cause, op_id, launch_id, launch_id
FROM late WHERE launch_end_ns > launch_start_ns
UNION ALL
SELECT trace_id, device_id, launch_end_ns, end_ns, 'idle', idle_class, 'launch_latency', op_id, launch_id, launch_id
FROM late WHERE end_ns > launch_end_ns;

-- `place` numbers a device's stretches, from 1.
CREATE OR REPLACE TABLE gpu_timeline AS
SELECT trace_id, device_id, row_number() OVER (PARTITION BY trace_id, device_id ORDER BY start_ns) AS place,
       start_ns, end_ns, activity, idle_class, cause, op_id, launch_id, host_event_id
FROM timeline_piece
ORDER BY trace_id, device_id, place;
