-- fact: Replays of graphs with missing kernels, and equal gaps between the kernels of replays.
-- into: recorder_finding
-- needs: windows
-- when: call = 'launch_graph'
-- A replay is unseen if it has no ops, and no op without a launch starts before the next replay; but not if
-- it was still queued when recording stopped (lost_launches). It is cut if it has at most half of the ops of
-- another replay of its graph. Without a graph's id, a replay is cut if its sequence of names occurs once and
-- is the beginning or end of a longer sequence that recurs.
WITH launch AS (
    SELECT trace_id, event_id AS launch_id, pid, start_ns,
           lead(start_ns) OVER (PARTITION BY trace_id, pid ORDER BY start_ns, event_id) AS next_ns
    FROM runtime_calls WHERE call = 'launch_graph'
),
op AS (
    SELECT g.trace_id, g.launch_id, g.name, g.start_ns, g.end_ns, g.event_id,
           nullif(e.args->>'graph id', '0') AS graph,
           g.start_ns - max(g.end_ns) OVER (PARTITION BY g.trace_id, g.launch_id, g.device_id
               ORDER BY g.start_ns, g.event_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS gap_ns
    FROM gpu_ops AS g JOIN event_row AS e ON g.trace_id = e.trace_id AND g.event_id = e.event_id
    WHERE g.is_graph
),
replay AS (
    SELECT trace_id, launch_id, any_value(graph) AS graph, count(*) AS ops,
           list(name ORDER BY start_ns, event_id) AS names,
           coalesce(median(gap_ns) FILTER (gap_ns > 0), 0)::BIGINT AS usual_gap_ns,
           list(gap_ns) FILTER (gap_ns > 0) AS gaps
    FROM op GROUP BY trace_id, launch_id
),
sequence AS (SELECT trace_id, graph, names, count(*) AS times FROM replay GROUP BY trace_id, graph, names),
cut AS (
    SELECT DISTINCT a.trace_id, a.graph, a.names FROM sequence AS a JOIN sequence AS b
      ON a.trace_id = b.trace_id AND a.graph IS NOT DISTINCT FROM b.graph AND 2 * len(a.names) <= len(b.names)
    WHERE a.graph IS NOT NULL
       OR (a.times = 1 AND b.times > 1
           AND a.names IN (b.names[:len(a.names)], b.names[len(b.names) - len(a.names) + 1:]))
),
-- The last replay launched before an event.
lost AS (
    SELECT DISTINCT l.trace_id, l.launch_id
    FROM (FROM gpu_ops WHERE launch_id IS NULL) AS o
    ASOF JOIN launch AS l ON o.trace_id = l.trace_id AND o.start_ns >= l.start_ns
),
waited AS (
    SELECT trace_id, launch_id, max(ns) AS ns, max(end_ns) AS end_ns FROM (
        SELECT l.trace_id, l.launch_id, s.tid, sum(s.dur_ns)::BIGINT AS ns, max(end_ns) AS end_ns
        FROM (SELECT trace_id, pid, tid, start_ns, end_ns, dur_ns FROM runtime_calls
            WHERE activity = 'sync' OR call = 'copy') AS s
        ASOF JOIN launch AS l ON s.trace_id = l.trace_id AND s.pid = l.pid AND s.start_ns >= l.start_ns
        GROUP BY ALL
    ) GROUP BY trace_id, launch_id
),
-- On the streams of replays, if any ran: other streams may be further on.
done AS (
    SELECT trace_id, coalesce(max(launch_start_ns) FILTER (replays), max(launch_start_ns)) AS seen_ns,
           max(end_ns) AS done_ns
    FROM (SELECT *, bool_or(is_graph) OVER (PARTITION BY trace_id, device_id, stream) AS replays FROM gpu_ops)
    GROUP BY trace_id
),
launched AS (
    SELECT l.trace_id,
           ops IS NULL AND o.launch_id IS NULL
               AND NOT coalesce(l.start_ns > seen_ns AND l.start_ns < done_ns, FALSE) AS is_unseen,
           c.names IS NOT NULL AS is_cut,
           coalesce(l.next_ns, w.end_ns, l.start_ns) - l.start_ns AS lasted_ns,
           coalesce(w.ns, 0) AS waited_ns,
           coalesce(list_sum(gaps), 0)::BIGINT AS gap_ns,
           coalesce(list_sum(list_filter(gaps, lambda ns: ns <= 2 * usual_gap_ns)), 0)::BIGINT AS even_gap_ns,
           usual_gap_ns
    FROM launch AS l LEFT JOIN replay AS r USING (trace_id, launch_id)
    LEFT JOIN done USING (trace_id)
    LEFT JOIN lost AS o USING (trace_id, launch_id) LEFT JOIN waited AS w USING (trace_id, launch_id)
    LEFT JOIN cut AS c
      ON r.trace_id = c.trace_id AND r.graph IS NOT DISTINCT FROM c.graph AND r.names = c.names
),
counted AS (
    SELECT trace_id, count(*) AS launched, count(*) FILTER (is_unseen) AS unseen,
           count(*) FILTER (is_cut) AS cut, unseen + cut AS missing,
           sum_where(lasted_ns, is_unseen OR is_cut) AS lasted_ns,
           sum_where(waited_ns, is_unseen OR is_cut) AS waited_ns,
           sum(gap_ns)::BIGINT AS gap_ns, sum(even_gap_ns)::BIGINT AS even_gap_ns,
           median(usual_gap_ns) FILTER (gap_ns > 0)::BIGINT AS usual_gap_ns,
           count(*) FILTER (gap_ns > 0) AS spaced
    FROM launched GROUP BY trace_id
)
SELECT trace_id, 'graph_without_kernels' AS code,
       if(unseen >= thresholds().unseen_share * launched, 'error', 'warning') AS severity, missing AS count,
       concat_ws(', and ',
           if(unseen > 0,
               format('{:,} of {:,} graph replays have no kernels in this trace', unseen, launched), NULL),
           if(cut > 0,
               format('{:,} of {:,} graph replays have at most half of the kernels of the others', cut,
                   launched), NULL))
       || if(waited_ns >= thresholds().waiting_share * lasted_ns AND waited_ns > 0,
           format('; the host waits {} of each {} in calls that synchronize, so the device is likely the '
               || 'limit', duration_text(waited_ns / missing), duration_text(lasted_ns / missing)),
           ': what the device did meanwhile is not known') AS message,
       lasted_ns AS time_ns, NULL AS event_id
FROM counted WHERE missing > 0
UNION ALL
SELECT trace_id, 'recorder_gaps', 'warning', spaced,
       format('equal gaps between the kernels of graph replays ({} at the median) take {} of the GPU-active '
           || 'span: the recorder may make them, and removing them is priced as nothing',
           duration_text(usual_gap_ns), format('{:.1f} %', 100 * even_gap_ns / (end_ns - start_ns))),
       even_gap_ns, NULL
FROM counted JOIN windows USING (trace_id) JOIN main_device USING (trace_id, device_id)
WHERE kind = 'gpu_active' AND even_gap_ns >= thresholds().gap_share * (end_ns - start_ns)
    AND even_gap_ns >= thresholds().even_share * gap_ns AND usual_gap_ns < thresholds().recorder_gap_ns
