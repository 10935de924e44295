-- question: Which threads were in Python at the same time, and which while the GPU waited for Python?
-- since: 0.1
-- columns pid, tid, launches
-- column python_ns (ns): time during which the thread's innermost slice was a Python frame
-- column contested_ns (ns): the part of it in which another thread of the process was in Python, too. With
--     the GIL, at most one of them ran, but the trace does not show which, nor whether one only waited or had
--     released the GIL: this is the most that contention can explain
-- column gpu_idle_ns (ns): the part of python_ns in which a device waited because its launching thread was in
--     Python: on that thread, its own work; on others, work that may have kept it waiting
-- column top_frame (text): the frame with most of python_ns; a waiting frame (threading, select) does not
--     hold the GIL
-- column top_frame_ns (ns): the top frame's time
-- doubts: no_stacks
-- https://docs.python.org/3/library/threading.html (the GIL)
WITH python AS MATERIALIZED (
    SELECT trace_id, pid, tid, segment AS event_id, event_id AS frame_id, start_ns, end_ns,
           {'trace_id': trace_id, 'pid': pid} AS key
    FROM host_segment WHERE activity = 'python' AND is_asked(trace_id)
),
contested AS (FROM interval_depth('python') WHERE depth > 1),
gap AS (
    SELECT {'trace_id': t.trace_id, 'pid': h.pid} AS key, t.start_ns, t.end_ns
    FROM gpu_timeline_by_cause AS t
    JOIN event_row AS h ON t.trace_id = h.trace_id AND t.host_event_id = h.event_id
    WHERE t.idle_class = 'host_late' AND t.cause = 'python'
),
shared AS (SELECT event_id, covered_ns FROM interval_covered('python', 'contested')),
beside AS (SELECT event_id, covered_ns FROM interval_covered('python', 'gap')),
top AS (
    SELECT trace_id, pid, tid, arg_max({'name': name, 'ns': ns}, (ns, name)) AS frame
    FROM (SELECT p.trace_id, p.pid, p.tid, name, sum(p.end_ns - p.start_ns)::BIGINT AS ns
        FROM python AS p JOIN event AS e ON p.trace_id = e.trace_id AND p.frame_id = e.event_id GROUP BY ALL)
    GROUP BY ALL
),
launched AS (SELECT trace_id, pid, tid, count(*) AS launches FROM launches GROUP BY ALL)
SELECT
    p.trace_id, p.pid, p.tid, coalesce(any_value(launches), 0) AS launches,
    sum(p.end_ns - p.start_ns)::BIGINT AS python_ns, sum(s.covered_ns)::BIGINT AS contested_ns,
    sum(b.covered_ns)::BIGINT AS gpu_idle_ns, any_value(frame).name AS top_frame,
    any_value(frame).ns AS top_frame_ns
FROM python AS p JOIN shared AS s USING (event_id) JOIN beside AS b USING (event_id)
LEFT JOIN top AS t ON p.trace_id = t.trace_id AND p.pid = t.pid AND p.tid = t.tid
LEFT JOIN launched AS l ON p.trace_id = l.trace_id AND p.pid = l.pid AND p.tid = l.tid
GROUP BY p.trace_id, p.pid, p.tid
ORDER BY p.trace_id, launches DESC, python_ns DESC, p.pid, p.tid
