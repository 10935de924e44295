-- fact: A device held up at the start by something that was not recorded.
-- into: recorder_finding
-- needs: gpu_timeline, windows, late_clock
-- If a blocking call begins when recording begins and returns when the device goes on, it probably waited for
-- work that was launched before the recording: the device's gap is not idle time. Nor is the time before its
-- first op, if that starts long after its launch has returned. A late clock looks the same.
WITH active AS (
    SELECT trace_id, device_id, start_ns, end_ns - start_ns AS ns
    FROM windows JOIN main_device USING (trace_id, device_id) ANTI JOIN late_clock USING (trace_id, device_id)
    WHERE kind = 'gpu_active'
),
gap AS (
    SELECT a.trace_id, a.ns AS span_ns, min(t.start_ns) AS start_ns, max(t.end_ns) AS end_ns
    FROM active AS a JOIN gpu_timeline AS t USING (trace_id, device_id)
    WHERE t.activity = 'idle' AND t.start_ns >= a.start_ns
        AND t.start_ns <= a.start_ns + thresholds().start_part * a.ns
    GROUP BY a.trace_id, a.ns, t.place
),
started AS (
    SELECT g.trace_id, g.event_id, g.start_ns, launch_end_ns, a.ns
    FROM gpu_ops AS g JOIN active AS a USING (trace_id, device_id) WHERE g.start_ns = a.start_ns
    QUALIFY row_number() OVER (PARTITION BY g.trace_id ORDER BY g.event_id) = 1
),
blocked AS (
    SELECT g.*, c.event_id, c.name
    FROM gap AS g JOIN trace_span AS s USING (trace_id) JOIN runtime_calls AS c
      ON g.trace_id = c.trace_id AND c.start_ns < g.end_ns AND c.end_ns > g.start_ns
    WHERE g.end_ns - g.start_ns >= thresholds().lost_share * span_ns AND c.activity IN ('sync', 'copy')
        AND c.start_ns <= s.start_ns + thresholds().start_part * span_ns
        AND least(c.end_ns, g.end_ns) - greatest(c.start_ns, g.start_ns)
            >= thresholds().nearly_all * (g.end_ns - g.start_ns)
)
SELECT trace_id, 'queued_before' AS code, 'warning' AS severity, 1 AS count,
       format('for the first {} the device probably ran work from before the recording: the host waited '
           || 'for it in {}', duration_text(max(end_ns - start_ns)), any_value(name)) AS message,
       max(end_ns - start_ns) AS time_ns, any_value(event_id) AS event_id
FROM blocked GROUP BY trace_id
UNION ALL
SELECT trace_id, 'started_late', 'warning', 1,
       format('the device starts {} after its first launch: until then it probably ran work from before the '
           || 'recording', duration_text(start_ns - launch_end_ns)), start_ns - launch_end_ns, event_id
FROM started WHERE start_ns - launch_end_ns >= greatest(thresholds().stall_ns, thresholds().lost_share * ns)
