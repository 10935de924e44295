-- question: Which calls of the ranks took milliseconds, not the usual microseconds?
-- since: 0.1
-- of: several traces
-- columns trace_id, rank, event_id, name, dur_ns
-- column usual_ns (ns): the median of the calls of this name on all ranks of the job
-- doubts: one_rank, absurd_duration
-- As in the remedy threads_and_quota, of all ranks together: if such calls are of several names, the thread
-- was probably not running. They neither wait nor load, have no other calls in them, and are not the first
-- of their name.
WITH own AS MATERIALIZED (
    SELECT s.trace_id, rank, job, s.event_id, s.name, s.start_ns, s.dur_ns,
           min(s.start_ns) OVER (PARTITION BY s.trace_id, s.name) AS first_ns
    FROM slices AS s JOIN jobs USING (trace_id) JOIN trace USING (trace_id)
    WHERE s.kind IN ('cpu_op', 'runtime', 'driver')
        AND s.activity IN ('dispatch', 'view', 'launch', 'runtime')
),
usual AS (
    SELECT job, name, median(dur_ns)::BIGINT AS usual_ns FROM own
    GROUP BY job, name HAVING count(*) >= thresholds().fewest_calls
),
slow AS (
    SELECT trace_id, rank, event_id, name, dur_ns, usual_ns FROM own JOIN usual USING (job, name)
    WHERE dur_ns >= thresholds().stall_ns AND dur_ns >= thresholds().one_off_ratio * usual_ns
        AND start_ns > first_ns
)
SELECT trace_id, rank, event_id, name, s.dur_ns, usual_ns
FROM slow AS s JOIN thread_slice AS h USING (trace_id, event_id)
WHERE self_ns >= thresholds().own_share * s.dur_ns
    AND (trace_id, event_id) NOT IN (SELECT (trace_id, launch_id) FROM gpu_ops
        WHERE launch_id IS NOT NULL AND launch_delay_ns >= thresholds().stall_ns)
ORDER BY rank, trace_id, event_id
