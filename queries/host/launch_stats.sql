-- question: How many launches were there, how long from launch to start, and how deep was the queue?
-- since: 0.1
-- params slow_ns, late_ns
-- columns device_id, launches, gpu_ops, delay_p50_ns, delay_p90_ns
-- column first_delay_p50_ns (ns): median of a call's first op's start minus the call's start
-- column delay_total_ns (ns): sum of the delays; SKIP calls it TKLQT (https://arxiv.org/abs/2504.11750)
-- columns queue_wait_p50_ns
-- column queue_depth_p50 (count): median number of pending launches on the stream at each launch, itself
--     included
-- column queue_depth_max (count): maximum number of pending launches
-- column launch_call_p50_ns (ns): median host time in a launch call
-- column short_ops (count): number of GPU ops that took less time than their launch call
-- column slow_launches (count): number of launch calls of slow_ns or more
-- column late_ops (count): number of launch delays of late_ns or more
-- column graph_share (fraction of gpu_ops): share of ops that graph launches ran
-- column compiled_share (fraction of the kernels that can be fused): Inductor's kernels (torch.compile) among
--     kernels other than matrix product, attention, convolution and communication; NULL: none
-- column dispatch_per_launch_ns (ns): operators' own time on the launching threads, over launches
-- doubts: no_gpu_ops, unlinked_gpu_ops, starts_before_launch
-- Of n sorted values, p50 is element n // 2 and p90 element 9n // 10, counted from 0: always a measured one.
WITH linked AS (
    SELECT *, launch_end_ns - launch_start_ns AS call_ns,
           kind = 'kernel' AND class NOT IN ('gemm', 'attention', 'convolution', 'communication')
               AS is_fusable,
           label_id IN (SELECT label_id FROM slice_label WHERE has(traits, 'inductor')) AS is_compiled
    FROM on_time_ops WHERE launch_id IS NOT NULL AND is_asked(trace_id)
),
launch AS (FROM queued_launches),
queue AS (
    SELECT key.trace_id AS trace_id, key.device_id AS device_id, list(depth) FILTER (is_launch) AS depths
    FROM (
        SELECT key, is_launch, sum(step) OVER (PARTITION BY key ORDER BY at_ns) AS depth
        FROM (
            SELECT key, start_ns AS at_ns, is_queued::INTEGER AS step, TRUE AS is_launch FROM launch
            UNION ALL
            SELECT key, end_ns, -1, FALSE FROM launch WHERE is_queued
        )
    )
    GROUP BY ALL
),
call AS (
    SELECT trace_id, device_id, count(*) AS launches, list(delay_ns) AS first_delays, list(call_ns) AS calls
    FROM (
        SELECT trace_id, device_id, min(launch_delay_ns) AS delay_ns,
               any_value(launch_end_ns - launch_start_ns) AS call_ns
        FROM linked GROUP BY trace_id, device_id, launch_id
    )
    GROUP BY ALL
),
delay AS (
    SELECT trace_id, device_id, count(*) AS n, list(launch_delay_ns) AS delays, list(queue_wait_ns) AS waits,
           TRY_CAST(sum(launch_delay_ns) AS BIGINT) AS total, count(*) FILTER (dur_ns < call_ns) AS short_ops,
           count(DISTINCT launch_id) FILTER (
               call_ns >= coalesce(getvariable('slow_ns'), thresholds().slow_launch_ns)) AS slow_launches,
           count(*) FILTER (
               launch_delay_ns >= coalesce(getvariable('late_ns'), thresholds().late_launch_ns)) AS late_ops,
           count(*) FILTER (is_graph) / n AS graph_share,
           count(*) FILTER (is_fusable AND is_compiled) / nullif(count(*) FILTER (is_fusable), 0)
               AS compiled_share
    FROM linked GROUP BY ALL
),
dispatch AS (
    SELECT trace_id, sum(s.end_ns - s.start_ns) AS dispatch_ns
    FROM (FROM host_thread SEMI JOIN linked USING (trace_id, pid, tid))
    JOIN thread_segment AS s USING (thread)
    WHERE activity_code = enum_code('dispatch'::host_activity) GROUP BY trace_id
)
SELECT d.trace_id, d.device_id, launches, d.n AS gpu_ops, percentile(delays, 50) AS delay_p50_ns,
       percentile(delays, 90) AS delay_p90_ns, percentile(first_delays, 50) AS first_delay_p50_ns,
       d.total AS delay_total_ns, percentile(waits, 50) AS queue_wait_p50_ns,
       percentile(depths, 50)::BIGINT AS queue_depth_p50, list_max(depths)::BIGINT AS queue_depth_max,
       percentile(calls, 50) AS launch_call_p50_ns,
       short_ops, slow_launches, late_ops, graph_share, compiled_share,
       (dispatch_ns // sum(launches) OVER (PARTITION BY d.trace_id))::BIGINT AS dispatch_per_launch_ns
FROM delay AS d JOIN call USING (trace_id, device_id) JOIN queue USING (trace_id, device_id)
    LEFT JOIN dispatch ON d.trace_id = dispatch.trace_id
ORDER BY d.trace_id, d.device_id
