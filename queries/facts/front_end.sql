-- fact: A front end of a server: a process without GPU ops, with the thread of it that works most.
-- needs: server_label, thread_slice, thread_segment, gpu_ops
-- when: has(traits, 'of_vllm') OR has(traits, 'of_sglang')
-- Most of its work is to tokenize, to answer, or to exchange messages.
CREATE TABLE front_end (
    trace_id INTEGER, pid BIGINT,
    tid BIGINT -- its event loop's
);
SELECT trace_id, pid, arg_max(tid, work_ns) AS tid
FROM (
    SELECT trace_id, pid, tid, sum(end_ns - start_ns) AS work_ns,
           sum_where(end_ns - start_ns, role NOT IN ('executing', 'scheduling', 'other')) AS front_ns
    FROM server_stretches(NULL) WHERE role <> 'waiting' AND trace_id NOT IN (SELECT trace_id FROM gpu_ops)
    GROUP BY ALL
) GROUP BY trace_id, pid HAVING 2 * sum(front_ns) > sum(work_ns)
