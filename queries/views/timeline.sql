-- The timeline of each device, from the trace's start to its end, without gap or overlap:
-- `activity` is compute, communication (not covered by compute), copy (covered by neither) or idle.
-- Idle time also has a class and a cause:
--   idle_class host_late      the op that ended the gap was launched after the gap began
--              device         it was launched before: dependency, launch latency, event wait
--              unlinked       its launch is not in the trace
--              after_last_op  no op followed
--   cause      what the launching thread did meanwhile: `launch` (or `copy`) during the call that
--              launched the op, `launch_latency` from its return until the op began; device gaps have
--              only `launch`: the call was in progress when the gap began, so nothing was queued
-- The starts and ends of ops in order of time, between the start and the end of the trace: how many ops of
-- each activity run from `at_ns` on, and the op that begins at the end of this interval (of several, the
-- first in the file). No op runs at the end of a device's timeline, so one running sum covers all devices.
CREATE TABLE scratch.device_interval AS
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
        count(*) FILTER (step = 1 AND activity = 'compute') OVER so_far
        - count(*) FILTER (step = -1 AND activity = 'compute') OVER so_far AS compute,
        count(*) FILTER (step = 1 AND activity = 'communication') OVER so_far
        - count(*) FILTER (step = -1 AND activity = 'communication') OVER so_far AS communication,
        count(*) FILTER (step = 1 AND activity = 'copy') OVER so_far
        - count(*) FILTER (step = -1 AND activity = 'copy') OVER so_far AS copy
    FROM (SELECT * FROM edge ORDER BY trace_id, device_id, at_ns, turn, event_id)
    WINDOW so_far AS (ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
)
SELECT
    trace_id, device_id, place, at_ns AS start_ns, next_ns AS end_ns, next_id,
    CASE WHEN compute > 0 THEN 'compute' WHEN communication > 0 THEN 'communication'
         WHEN copy > 0 THEN 'copy' ELSE 'idle' END::device_activity AS activity
FROM counted WHERE next_ns > at_ns;

-- Idle intervals with the op that ended them and its launch. The join is by order and then checks the match:
-- a sort can spill to disk when memory is short, a hash table of all launches cannot.
-- A trace with more than thresholds().stepped_devices has too many simultaneous gaps to store the host's time
-- for each. There, late gaps have no class in this table and one row without a cause in the timeline
-- (see gpu_timeline_by_cause).
CREATE TABLE scratch.gap AS
WITH crowded AS (SELECT trace_id FROM gpu_ops GROUP BY trace_id
    HAVING count(DISTINCT device_id) > thresholds().stepped_devices)
SELECT
    i.trace_id, i.device_id, i.place, i.start_ns, i.end_ns, next_id AS op_id,
    CASE WHEN is_match THEN launch_id END AS launch_id,
    least(launch_start_ns, i.end_ns) AS launch_start_ns,
    greatest(least(launch_start_ns, i.end_ns), least(launch_end_ns, i.end_ns)) AS launch_end_ns,
    CASE WHEN is_copy_call THEN 'copy' ELSE 'launch' END::idle_cause AS call_cause,
    is_match AND i.launch_start_ns > i.start_ns AS is_late,
    CASE WHEN next_id IS NULL THEN 'after_last_op'
         WHEN NOT is_match THEN 'unlinked'
         WHEN NOT is_late THEN 'device'
         WHEN trace_id NOT IN (FROM crowded) THEN 'host_late' END::idle_class AS idle_class
FROM (
    SELECT i.*, l.launch_id, l.launch_start_ns, l.launch_end_ns, l.is_copy_call,
           coalesce(l.event_id = next_id, FALSE) AS is_match
    FROM (SELECT * FROM scratch.device_interval WHERE activity = 'idle') AS i
    ASOF LEFT JOIN gpu_op_launch AS l ON i.trace_id = l.trace_id AND i.next_id >= l.event_id
) AS i;

-- `place` numbers the intervals of all devices in order of time; an idle interval may have several rows, one
-- for each cause. tracekit/ingest/host_tree.py adds the waits for the host, [gap start, launch), with the
-- launching thread's activity at each instant. tracekit/native/src/nesting.c (go_to) chooses that activity:
-- the outermost open slice that covers all inside it (input, compilation), else the innermost slice.
CREATE OR REPLACE TABLE gpu_timeline AS
SELECT trace_id, device_id, place, start_ns, end_ns, activity, NULL::idle_class AS idle_class,
       NULL::idle_cause AS cause,
       NULL::BIGINT AS op_id, NULL::BIGINT AS launch_id, NULL::BIGINT AS host_event_id
FROM scratch.device_interval WHERE activity <> 'idle'
UNION ALL
SELECT trace_id, device_id, place, start_ns, end_ns, 'idle'::device_activity, idle_class, NULL, op_id,
       launch_id, NULL
FROM scratch.gap WHERE idle_class IN ('unlinked', 'after_last_op')
UNION ALL
SELECT trace_id, device_id, place, start_ns, launch_end_ns, 'idle'::device_activity, idle_class, call_cause,
       op_id, launch_id, launch_id
FROM scratch.gap WHERE idle_class = 'device' AND launch_end_ns > start_ns
UNION ALL
SELECT trace_id, device_id, place, greatest(start_ns, launch_end_ns), end_ns, 'idle'::device_activity,
       idle_class, NULL, op_id, launch_id, NULL
FROM scratch.gap WHERE idle_class = 'device' AND end_ns > launch_end_ns
UNION ALL
SELECT trace_id, device_id, place, start_ns, launch_start_ns, 'idle'::device_activity,
       'host_late'::idle_class, NULL, op_id, launch_id, NULL
FROM scratch.gap WHERE idle_class IS NULL
UNION ALL
SELECT trace_id, device_id, place, launch_start_ns, launch_end_ns, 'idle'::device_activity,
       'host_late'::idle_class, call_cause, op_id, launch_id, launch_id
FROM scratch.gap WHERE is_late AND launch_end_ns > launch_start_ns
UNION ALL
SELECT trace_id, device_id, place, launch_end_ns, end_ns, 'idle'::device_activity, 'host_late'::idle_class,
       'launch_latency'::idle_cause, op_id, launch_id, launch_id
FROM scratch.gap WHERE is_late AND end_ns > launch_end_ns;
