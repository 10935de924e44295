-- fact: A device whose clock is late: each op starts long after its launch, also those that found it idle.
-- needs: gpu_ops, device_interval
-- If ops wait for something else, some still start at once; ops of a late clock never do. What a call
-- prepares before its op starts is no delay, so long calls prove nothing.
CREATE TABLE late_clock (
    trace_id INTEGER, device_id BIGINT,
    late_ns  BIGINT  -- the least time from the start of a launch to its op
);
WITH least AS (
    SELECT trace_id, device_id, min(launch_delay_ns) AS late_ns FROM gpu_ops
    WHERE launch_id IS NOT NULL GROUP BY ALL HAVING late_ns >= thresholds().late_clock_ns
),
found AS (
    SELECT trace_id, device_id, late_ns, i.end_ns - i.start_ns AS idle_ns,
           launch_end_ns - launch_start_ns < thresholds().late_clock_ns
           AND launch_delay_ns <= late_ns + thresholds().most_latency_ns AS is_prompt
    FROM _scratch.device_interval AS i JOIN least USING (trace_id, device_id)
    JOIN gpu_ops AS o USING (trace_id, device_id)
    WHERE i.activity = 'idle' AND i.next_id = o.event_id AND launch_id IS NOT NULL
)
SELECT trace_id, device_id, late_ns FROM found GROUP BY ALL
HAVING count(*) FILTER (is_prompt) >= thresholds().late_starts
    AND 2 * sum(idle_ns) FILTER (is_prompt) > sum(idle_ns)
