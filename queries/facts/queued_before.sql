-- fact: A device's first gap, if the host waits through it in a call that began with the recording.
-- into: recorder_finding
-- needs: gap, gpu_ops, trace_span
-- when: activity IN ('sync', 'copy')
-- If a blocking call begins when recording begins and returns when the device goes on, it waited for work
-- that was launched before the recording. So the device was busy in that gap, and the GPU-active span begins
-- after it: `time_ns` is the time from the device's first op.
WITH active AS (
    SELECT trace_id, device_id, min(start_ns) AS start_ns, max(end_ns) - min(start_ns) AS ns
    FROM gpu_ops JOIN main_device USING (trace_id, device_id) GROUP BY ALL
),
early AS (
    SELECT a.trace_id, a.ns AS span_ns, a.start_ns AS first_ns, g.start_ns, g.end_ns
    FROM active AS a JOIN _scratch.gap AS g USING (trace_id, device_id)
    WHERE g.start_ns BETWEEN a.start_ns AND a.start_ns + thresholds().start_part * a.ns
),
blocked AS (
    SELECT g.*, c.event_id, c.name
    FROM early AS g JOIN trace_span AS s USING (trace_id) JOIN runtime_calls AS c
      ON g.trace_id = c.trace_id AND c.start_ns < g.end_ns AND c.end_ns > g.start_ns
    WHERE g.end_ns - g.start_ns >= thresholds().lost_share * span_ns AND c.activity IN ('sync', 'copy')
        AND c.start_ns <= s.start_ns + thresholds().start_part * span_ns
        AND least(c.end_ns, g.end_ns) - greatest(c.start_ns, g.start_ns)
            >= thresholds().nearly_all * (g.end_ns - g.start_ns)
)
SELECT trace_id, 'queued_before' AS code, 'warning' AS severity, 1 AS count,
       format('for the first {} the device worked on what was launched before the recording, which is left '
           || 'out: the host waited for it in {}', duration_text(max(end_ns - first_ns)), any_value(name))
           AS message,
       max(end_ns - first_ns) AS time_ns, any_value(event_id) AS event_id
FROM blocked GROUP BY trace_id
