-- question: In which long stretches was nothing of a thread recorded, so that it may have waited?
-- since: 0.1
-- columns event_id, pid, tid, start_ns, dur_ns
-- column alike (integer): a number, equal for stretches that end slices of one name, or that lie in such
--     slices before others of one name
-- column is_message (boolean): it ends just after another thread's message, and each covers most of the other
-- doubts: no_stacks, absurd_duration
-- A stretch that the end of the recording cuts does not count.
WITH long AS MATERIALIZED (
    SELECT thread, trace_id, event_id, pid, tid, s.start_ns, s.end_ns
    FROM thread_segment AS s JOIN host_thread USING (thread)
    WHERE is_asked(trace_id) AND host_activity_of(activity_code) IN ('python', 'untraced', 'dispatch')
        AND s.end_ns - s.start_ns >= thresholds().spin_ns
),
-- What the thread did next.
next AS (
    SELECT thread, n.start_ns AS end_ns, n.event_id AS next_id
    FROM thread_segment AS n SEMI JOIN (SELECT thread, end_ns AS start_ns FROM long) USING (thread, start_ns)
),
named AS (
    SELECT trace_id, event_id, end_ns, folded_name(name) AS name, traits FROM slices
    WHERE (trace_id, event_id) IN (
        SELECT (trace_id, event_id) FROM long UNION ALL
        SELECT (trace_id, next_id) FROM long JOIN next USING (thread, end_ns))
),
stretch AS (
    SELECT s.trace_id, s.event_id, s.pid, s.tid, s.start_ns, s.end_ns,
           dense_rank() OVER (ORDER BY e.name,
               CASE WHEN e.end_ns IS DISTINCT FROM s.end_ns THEN f.name END) AS alike
    FROM long AS s LEFT JOIN next AS n USING (thread, end_ns)
    LEFT JOIN named AS e ON s.trace_id = e.trace_id AND s.event_id = e.event_id
    LEFT JOIN named AS f ON s.trace_id = f.trace_id AND n.next_id = f.event_id
    WHERE (n.end_ns IS NOT NULL OR e.end_ns = s.end_ns)
        AND (e.event_id IS NULL OR NOT list_has_any(e.traits, ['collective_call', 'remote_call']))
),
message AS (
    SELECT trace_id, pid, tid, start_ns, end_ns FROM slices
    WHERE list_has_any(traits, ['collective_call', 'remote_call'])
        AND trace_id IN (SELECT trace_id FROM stretch)
)
SELECT s.trace_id, s.event_id, s.pid, s.tid, s.start_ns, s.end_ns - s.start_ns AS dur_ns, alike,
       m.tid <> s.tid AND s.end_ns - m.end_ns
           <= least(thresholds().spin_ns, thresholds().spin_share * (s.end_ns - s.start_ns))
           AND 2 * (m.end_ns - greatest(m.start_ns, s.start_ns))
               >= greatest(m.end_ns - m.start_ns, s.end_ns - s.start_ns) AS is_message
FROM stretch AS s ASOF LEFT JOIN message AS m ON s.trace_id = m.trace_id AND s.end_ns >= m.end_ns
ORDER BY s.trace_id, s.pid, s.tid, s.start_ns
