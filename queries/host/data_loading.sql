-- question: How long did the host wait for data, and how long did the GPU wait meanwhile?
-- since: 0.1
-- columns step, name, count, host_ns, max_ns, gpu_idle_ns
-- doubts: no_data_loading
WITH fetched AS (
    FROM slices WHERE activity = 'input' AND is_asked(trace_id)
    QUALIFY is_outermost((trace_id, pid, tid), start_ns, end_ns)
),
stepped AS (
    SELECT f.*, CASE WHEN f.start_ns < s.end_ns THEN s.step END AS step
    FROM fetched AS f ASOF LEFT JOIN steps AS s ON f.trace_id = s.trace_id AND f.start_ns >= s.start_ns
),
idle AS (
    SELECT f.trace_id, f.event_id, sum(t.end_ns - t.start_ns) AS ns
    FROM gpu_timeline_by_cause AS t
    JOIN event_row AS h ON t.trace_id = h.trace_id AND t.host_event_id = h.event_id
    ASOF JOIN fetched AS f ON t.trace_id = f.trace_id AND h.pid = f.pid AND h.tid = f.tid
        AND t.start_ns >= f.start_ns
    WHERE cause = 'input' AND t.start_ns < f.end_ns
    GROUP BY ALL
)
SELECT trace_id, step, name, count(*) AS count, sum(dur_ns)::BIGINT AS host_ns,
       max(dur_ns) AS max_ns, coalesce(sum(idle.ns), 0)::BIGINT AS gpu_idle_ns
FROM stepped LEFT JOIN idle USING (trace_id, event_id)
GROUP BY trace_id, step, name
ORDER BY trace_id, step NULLS FIRST, host_ns DESC, name
