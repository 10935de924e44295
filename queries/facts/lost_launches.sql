-- fact: Launches whose kernels are missing, most of them or at one end of the recording; and those captured.
-- into: recorder_finding
-- needs: launch_call, graph_captures, trace_span
-- when: call IN ('launch_kernel', 'launch_graph')
-- A profiler drops kernels that the device's clock puts before the recording's start:
-- github.com/pytorch/pytorch/issues/192021. One that stops without waiting for the device loses the ops
-- that still run. Launches recorded by a graph's capture have none. Work launched before the last recorded op
-- ended was queued behind it: the device was the slower side, whatever it ran next.
WITH call AS (
    SELECT l.trace_id, l.start_ns, g.launch_id IS NOT NULL OR o.correlation IS NOT NULL AS is_seen,
           NOT is_seen AND coalesce(l.start_ns < c.end_ns, FALSE) AS is_captured
    FROM (FROM runtime_calls WHERE call IN ('launch_kernel', 'launch_graph')) AS l
    LEFT JOIN launch_call AS g ON l.trace_id = g.trace_id AND l.event_id = g.launch_id
    -- If launches of several processes have an op's number, one of them is its launch.
    LEFT JOIN (
        SELECT DISTINCT trace_id, correlation FROM gpu_ops WHERE launch_id IS NULL AND correlation <> 0
    ) AS o ON l.trace_id = o.trace_id AND l.correlation = o.correlation
    ASOF LEFT JOIN graph_captures AS c
      ON l.trace_id = c.trace_id AND l.pid = c.pid AND l.start_ns >= c.start_ns
),
counted AS (
    SELECT *, min(start_ns) FILTER (is_seen) OVER (PARTITION BY trace_id) AS first_ns,
           max(start_ns) FILTER (is_seen) OVER (PARTITION BY trace_id) AS last_ns
    FROM call
),
total AS (
    SELECT c.trace_id, count(*) AS launches, count(*) FILTER (is_captured) AS captured,
           count(*) FILTER (is_seen) AS seen,
           count(*) FILTER (NOT is_captured AND start_ns < first_ns) AS unseen_first,
           count(*) FILTER (NOT is_captured AND start_ns > last_ns) AS unseen_last,
           count(*) FILTER (NOT is_captured AND start_ns > greatest(last_ns, done_ns)) AS unqueued_last,
           min(start_ns) FILTER (NOT is_captured AND start_ns > last_ns) AS cut_ns,
           count(*) FILTER (NOT is_captured AND NOT is_seen) AS unseen,
           any_value(damage IS NOT NULL) AS is_cut,
           any_value(coalesce(o.unlinked, 0)) AS unlinked, any_value(coalesce(o.ops, 0)) AS ops
    FROM counted AS c JOIN trace USING (trace_id) LEFT JOIN (
        SELECT trace_id, count(*) AS ops, count(*) - count(launch_id) AS unlinked, max(end_ns) AS done_ns
        FROM gpu_ops GROUP BY trace_id
    ) AS o USING (trace_id)
    GROUP BY c.trace_id
)
-- A file that was cut off lost its end, not its start or the device's last work.
SELECT trace_id, 'lost_kernels' AS code,
       if(unseen >= thresholds().unseen_share * (launches - captured), 'error', 'warning') AS severity,
       unseen AS count,
       format('{:,} of {:,} launches have no kernels in {}', unseen, launches - captured,
           if(is_cut, 'what is left of the file', 'this trace')) AS message,
       NULL::BIGINT AS time_ns, NULL AS event_id
FROM total
WHERE ops > 0 AND if(is_cut, unseen, unseen - unseen_first - unseen_last) >= greatest(
    thresholds().fewest_lost,
    if(is_cut, thresholds().lost_share, thresholds().unseen_share) * (launches - captured))
UNION ALL
SELECT trace_id, 'dropped_at_start',
       if(unseen_first >= thresholds().unseen_share * (launches - captured), 'error', 'warning'),
       unseen_first,
       format('the first {:,} of {:,} launches have no kernels in this trace, and later ones have: the '
           || 'recorder dropped what ran at its start', unseen_first, launches - captured), NULL, NULL
FROM total
WHERE NOT is_cut AND unseen_first >= greatest(thresholds().fewest_lost, unlinked + 1)
    AND unseen_first >= thresholds().lost_share * (launches - captured)
    AND launches - captured - seen - unseen_first <= thresholds().lost_share * seen
UNION ALL
SELECT t.trace_id, 'dropped_at_end',
       if(unqueued_last >= thresholds().unseen_share * (launches - captured), 'error', 'warning'),
       unseen_last,
       format('the last {:,} of {:,} launches have no kernels in this trace, and earlier ones have: '
           || 'recording stopped before the device was done', unseen_last, launches - captured),
       end_ns - cut_ns, NULL
FROM total AS t JOIN trace_span USING (trace_id)
-- Ops without a launch may be theirs, unless they start before it.
WHERE NOT is_cut AND unseen_last >= greatest(thresholds().fewest_lost, 1 + (SELECT count(*) FROM gpu_ops AS o
        WHERE o.trace_id = t.trace_id AND launch_id IS NULL AND o.start_ns >= cut_ns))
    AND launches - captured - seen - unseen_last <= thresholds().lost_share * seen
UNION ALL
SELECT trace_id, 'captured_only', 'error', captured,
       format('{:,} of {:,} launches were captured into graphs instead of running: the trace has the '
           || 'capture, not the replays', captured, launches), NULL, NULL
FROM total
WHERE captured >= thresholds().unseen_share * launches AND captured > ops
