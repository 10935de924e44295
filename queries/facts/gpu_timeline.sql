-- fact: An interval of a device's time by what the device did or why it was idle.
-- needs: gap
-- of: device_interval
-- by: walk
-- `activity` is compute, communication (not covered by compute), copy (covered by neither) or idle. Idle time
-- also has a class and a cause:
--   idle_class host_late      the op that ended the gap was launched after the gap began
--              device         it was launched before: dependency, launch latency, event wait
--              unlinked       its launch is not in the trace
--              after_last_op  no op followed
--   cause      what the launching thread did meanwhile: `launch` (or `copy`) during the call that
--              launched the op, `launch_latency` from its return until the op began, but at most
--              `most_latency_ns`, and `held` for the rest, whose reason is unknown; `host_function` while a
--              function of the host ran on the stream, as in a graph. Device gaps have only
--              `launch`: the call was in progress when the gap began, so nothing was queued
-- `place` numbers the intervals of all devices in order of time; an idle interval may have several rows, one
-- for each cause. tracekit/ingest/derived.py adds the waits for the host, [gap start, launch), with the
-- launching thread's activity at each instant. tracekit/native/src/nesting.c (go_to) chooses that activity:
-- the outermost open slice that covers everything inside it (input, compilation), else the innermost slice.
CREATE TABLE gpu_timeline (
    trace_id INTEGER, device_id BIGINT,
    place         BIGINT,  -- the number of the interval, in order of time
    start_ns BIGINT, end_ns BIGINT, activity device_activity, idle_class idle_class,
    cause idle_cause,
    op_id         BIGINT,  -- the op that ended the gap
    launch_id BIGINT,
    host_event_id BIGINT   -- the host's slice during which the device waited
);
SELECT trace_id, device_id, place, start_ns, end_ns, activity, NULL::idle_class AS idle_class,
       NULL::idle_cause AS cause,
       NULL::BIGINT AS op_id, NULL::BIGINT AS launch_id, NULL::BIGINT AS host_event_id
FROM _scratch.device_interval WHERE activity <> 'idle'
UNION ALL
SELECT trace_id, device_id, place, start_ns, end_ns, 'idle'::device_activity, idle_class, NULL, op_id,
       launch_id, NULL
FROM _scratch.gap WHERE idle_class IN ('unlinked', 'after_last_op')
UNION ALL
SELECT trace_id, device_id, place, start_ns, launch_start_ns, 'idle'::device_activity,
       'host_late'::idle_class, NULL, op_id, launch_id, NULL
FROM _scratch.gap WHERE idle_class IS NULL
UNION ALL
-- The part of a linked gap in its launch call, then the part after it.
SELECT trace_id, device_id, place, greatest(start_ns, launch_start_ns), launch_end_ns,
       'idle'::device_activity, coalesce(idle_class, 'host_late'), call_cause, op_id, launch_id, launch_id
FROM _scratch.gap WHERE launch_id IS NOT NULL AND launch_end_ns > greatest(start_ns, launch_start_ns)
UNION ALL
SELECT trace_id, device_id, place, greatest(start_ns, launch_end_ns),
       CASE WHEN is_late THEN least(end_ns, launch_end_ns + thresholds().most_latency_ns) ELSE end_ns END,
       'idle'::device_activity, coalesce(idle_class, 'host_late'),
       CASE WHEN is_late THEN 'launch_latency'
            WHEN idle_class = 'host_late' THEN 'host_function' END::idle_cause,
       op_id, launch_id, CASE WHEN is_late THEN launch_id END
FROM _scratch.gap WHERE launch_id IS NOT NULL AND end_ns > launch_end_ns
UNION ALL
SELECT trace_id, device_id, place, launch_end_ns + thresholds().most_latency_ns, end_ns,
       'idle'::device_activity, coalesce(idle_class, 'host_late'), 'held'::idle_cause, op_id, launch_id,
       launch_id
FROM _scratch.gap WHERE is_late AND end_ns > launch_end_ns + thresholds().most_latency_ns
