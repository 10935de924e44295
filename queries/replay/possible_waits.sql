-- question: Which slices end with a long stretch in which nothing was recorded inside them?
-- since: 0.1
-- columns event_id, pid, tid, start_ns, dur_ns
-- column alike (integer): a number, equal for slices whose names differ only in numbers
-- column is_message (boolean): it ends just after another thread's message, and each covers most of the other
-- doubts: no_stacks, absurd_duration
WITH stretch AS (
    SELECT s.trace_id, event_id, pid, tid, s.start_ns, e.end_ns,
           dense_rank() OVER (ORDER BY folded_name(name)) AS alike
    FROM host_segment AS s JOIN slices AS e USING (trace_id, event_id, pid, tid, end_ns)
    WHERE is_asked(trace_id)
        AND s.activity IN ('python', 'untraced', 'dispatch')
        AND s.end_ns - s.start_ns >= thresholds().spin_ns
        AND NOT list_has_any(traits, ['collective_call', 'remote_call'])
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
