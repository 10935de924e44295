-- fact: A front end of a server: a process without GPU ops, with the thread of it that works most.
-- needs: thread_slice, thread_segment
-- of: server_label, server_host
-- Most of its work is to tokenize, to answer, or to exchange messages.
CREATE TABLE front_end (
    trace_id INTEGER, pid BIGINT,
    tid BIGINT -- its event loop's
);
SELECT trace_id, pid, arg_max(tid, work_ns) AS tid
FROM (
    SELECT trace_id, pid, tid, sum(end_ns - start_ns) AS work_ns,
           sum_where(end_ns - start_ns, role NOT IN ('executing', 'scheduling', 'other')) AS front_ns
    FROM server_stretches(NULL) SEMI JOIN _scratch.server_host USING (trace_id) WHERE role <> 'waiting'
    GROUP BY ALL
) GROUP BY trace_id, pid HAVING 2 * sum(front_ns) > sum(work_ns)
