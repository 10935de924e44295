-- question: Which launches were slow, started their op late, or took longer than their op?
-- since: 0.1
-- params top, slow_ns, late_ns
-- columns device_id, launch_id, launch, start_ns, call_ns
-- column gpu_op (text): the op that it launched (for a graph, its first op)
-- columns gpu_ns
-- column launch_delay_ns (ns): start of the op minus start of the launch, less what a late clock adds
-- column is_slow (boolean): the call took slow_ns or more
-- column is_late (boolean): the delay was late_ns or more
-- column is_short (boolean): the op took less time than the call that launched it
-- columns cpu_op, step
-- doubts: no_gpu_ops, unlinked_gpu_ops, starts_before_launch
WITH first_op AS (
    SELECT trace_id, launch_id, arg_min(event_id, launch_delay_ns) AS event_id FROM gpu_ops
    WHERE launch_id IS NOT NULL AND is_asked(trace_id) GROUP BY ALL
),
launch AS (
    SELECT
        trace_id, device_id, launch_id, event_id, launch_name, launch_start_ns,
        launch_end_ns - launch_start_ns AS call_ns, dur_ns, launch_delay_ns,
        call_ns >= coalesce(getvariable('slow_ns'), thresholds().slow_launch_ns) AS is_slow,
        launch_delay_ns >= coalesce(getvariable('late_ns'), thresholds().late_launch_ns) AS is_late,
        dur_ns < call_ns AS is_short
    FROM on_time_ops SEMI JOIN first_op USING (trace_id, event_id)
),
worst AS (
    SELECT * FROM launch WHERE is_slow OR is_late OR is_short
    ORDER BY greatest(call_ns, launch_delay_ns) DESC, launch_id, trace_id
    LIMIT coalesce(getvariable('top'), 20)
)
SELECT
    w.trace_id, w.device_id, w.launch_id, w.launch_name AS launch, w.launch_start_ns AS start_ns, call_ns,
    o.name AS gpu_op, w.dur_ns AS gpu_ns, w.launch_delay_ns, is_slow, is_late, is_short, launch_op AS cpu_op,
    step
FROM worst AS w JOIN gpu_op_origin AS o ON w.trace_id = o.trace_id AND w.event_id = o.event_id
ORDER BY greatest(call_ns, w.launch_delay_ns) DESC, w.launch_id, trace_id
