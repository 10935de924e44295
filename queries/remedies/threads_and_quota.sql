-- question: Which calls took milliseconds, not the usual microseconds, because the thread was not running?
-- since: 0.1
-- title: Keep the launching thread on its core
-- causes: dispatch, launch, python
-- when: activity IN ('dispatch', 'view', 'launch', 'runtime') AND longest_ns >= thresholds().stall_ns
--     AND event_count >= thresholds().fewest_calls
-- outside_loops: true
-- claims: events
-- needs: Separate CPU cores for the process: no quota that stops it, fewer threads than cores, no busy
--     neighbors.
-- caveat: It is inferred that the thread was not running: calls of several kinds sometimes take long, and
--     none of them waits. Page faults and the clock's power states look the same.
-- before:
--     docker run --cpus=2 ... python train.py       # the quota stops all threads for part of each 100 ms
-- after:
--     docker run --cpuset-cpus=0-7 ... python train.py
--     # in the program: torch.set_num_threads(cores // processes); OMP_NUM_THREADS for its libraries
-- risks: Pinning to cores that other processes use makes it worse. With several devices, take the cores next
--     to each device.
-- check: grep throttled /sys/fs/cgroup/cpu.stat; perf sched timehist -p PID; tracekit query launch_outliers
--     after.json
-- sources: https://docs.kernel.org/admin-guide/cgroup-v2.html#cpu
--     https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
-- doubts: absurd_duration
-- Calls without other calls in them that neither wait nor load, and that happen after the start, too. A
-- thread stops in any call. If only calls of one name are slow, they have a reason of their own, unless they
-- are most of the host's time; so have those that are slow far more often than their share of it explains.
WITH own AS NOT MATERIALIZED (
    SELECT s.trace_id, s.event_id, s.name, s.pid, s.tid, s.start_ns, s.dur_ns FROM slices AS s
    WHERE is_asked(s.trace_id)
        AND s.kind IN ('cpu_op', 'runtime', 'driver')
        AND s.activity IN ('dispatch', 'view', 'launch', 'runtime')
        AND (s.trace_id, s.event_id) NOT IN (SELECT (trace_id, launch_id) FROM gpu_ops
            WHERE launch_id IS NOT NULL AND (kind <> 'kernel' OR launch_delay_ns >= thresholds().stall_ns))
),
slow AS MATERIALIZED (
    SELECT o.* FROM own AS o JOIN thread_slice AS h ON o.trace_id = h.trace_id AND o.event_id = h.event_id
    WHERE o.dur_ns >= thresholds().stall_ns AND self_ns >= thresholds().own_share * o.dur_ns
),
call AS MATERIALIZED (FROM own SEMI JOIN slow USING (trace_id)),
early AS (
    SELECT trace_id, quantile_disc(start_ns, thresholds().one_off_early_share) AS until_ns
    FROM call GROUP BY ALL
),
usual AS (
    SELECT trace_id, name, median(dur_ns) AS usual_ns, count(*) AS calls, min(start_ns) AS first_ns,
           usual_ns * calls / sum(median(dur_ns) * count(*)) OVER (PARTITION BY trace_id) AS share
    FROM call GROUP BY trace_id, name
),
far AS (
    SELECT * FROM slow JOIN usual USING (trace_id, name) JOIN early USING (trace_id)
    WHERE calls >= thresholds().fewest_calls AND dur_ns >= thresholds().one_off_ratio * usual_ns
        AND start_ns > first_ns
    WINDOW alike AS (PARTITION BY trace_id, name)
    QUALIFY count(*) OVER alike = 1 OR count(*) OVER alike
        <= thresholds().one_off_ratio * share * count(*) OVER (PARTITION BY trace_id)
),
stall AS (
    FROM far QUALIFY count(DISTINCT CASE WHEN start_ns > until_ns THEN name END) OVER (PARTITION BY trace_id)
        >= thresholds().fewest_alike
        OR min(share) OVER (PARTITION BY trace_id) >= thresholds().captured_majority
            AND count_if(start_ns > until_ns) OVER (PARTITION BY trace_id)
                >= thresholds().fewest_alike
)
SELECT trace_id, NULL AS place,
       format('{} calls, up to {:.0f} ms, from {:.0f} to {:.0f} ms', count(*) OVER whole,
           max(dur_ns) OVER whole / 1e6, (min(s.start_ns) OVER whole - t.start_ns) / 1e6,
           (max(s.start_ns) OVER whole - t.start_ns) / 1e6) AS detail,
       'host' AS target, event_id, pid, tid, s.start_ns, dur_ns, usual_ns / dur_ns AS factor
FROM stall AS s JOIN (SELECT trace_id, start_ns FROM trace_span) AS t USING (trace_id)
WINDOW whole AS (PARTITION BY s.trace_id)
