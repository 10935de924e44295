-- question: What did each host thread spend its time on, and how much is that per launch?
-- since: 0.1
-- columns pid, tid, launches, activity
-- column host_ns (ns): the thread's time in this activity; its activities add up exactly to the trace's span
-- column share_of_span (fraction of the trace's span): host_ns over overview's span_ns
-- column per_launch_ns (ns): host_ns over launches: for `dispatch`, the CPU dispatch time per launch
-- doubts: no_operators, no_stacks, begin_end_events
WITH launched AS (SELECT trace_id, pid, tid, count(*) AS launches FROM launches GROUP BY ALL)
SELECT
    s.trace_id, s.pid, s.tid, coalesce(launches, 0) AS launches, activity,
    sum(s.end_ns - s.start_ns)::BIGINT AS host_ns,
    sum(s.end_ns - s.start_ns) / any_value(span.end_ns - span.start_ns) AS share_of_span,
    sum(s.end_ns - s.start_ns)::BIGINT // nullif(launches, 0) AS per_launch_ns
FROM host_segment AS s JOIN trace_span AS span USING (trace_id)
LEFT JOIN launched AS l ON s.trace_id = l.trace_id AND s.pid = l.pid AND s.tid = l.tid
WHERE is_asked(s.trace_id)
GROUP BY s.trace_id, s.pid, s.tid, launches, activity
ORDER BY s.trace_id, launches DESC, s.pid, s.tid, host_ns DESC
