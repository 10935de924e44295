-- fact: Host work in which DistributedDataParallel copies.
-- needs: thread_slice
-- when: name IN ('aten::unflatten_dense_tensors', 'torch.distributed.ddp.reducer::copy_bucket_to_grad')
-- Buffers are packed, broadcast and unpacked before a forward pass, and parameters at a start: between these
-- operators in one slice, there are no operators of the program.
CREATE TABLE ddp_copies (
    trace_id INTEGER, event_id BIGINT, -- its first operator
    pid BIGINT, tid BIGINT, start_ns BIGINT, end_ns BIGINT,
    copied   VARCHAR -- gradients (a bucket back into one of them) or buffers (all of them)
);
WITH operator AS (
    SELECT c.trace_id, c.event_id, c.pid, c.tid, parent_id, name, c.start_ns, c.end_ns
    FROM cpu_ops AS c JOIN thread_slice AS h ON c.trace_id = h.trace_id AND c.event_id = h.event_id
    WHERE (c.trace_id, c.pid, c.tid) IN (SELECT (trace_id, pid, tid) FROM cpu_ops
        WHERE name IN ('aten::unflatten_dense_tensors', 'torch.distributed.ddp.reducer::copy_bucket_to_grad'))
),
beside AS (
    SELECT o.*, o.name IN ('aten::flatten_dense_tensors', 'c10d::broadcast_', 'record_param_comms',
               'aten::unflatten_dense_tensors', 'aten::copy_', 'aten::_foreach_copy_') AS is_part
    FROM operator AS o SEMI JOIN (FROM operator WHERE name = 'aten::unflatten_dense_tensors') AS u
      ON o.trace_id = u.trace_id AND o.pid = u.pid AND o.tid = u.tid
        AND o.parent_id IS NOT DISTINCT FROM u.parent_id
),
numbered AS (
    SELECT *, count_if(NOT is_part) OVER (PARTITION BY trace_id, pid, tid, parent_id
               ORDER BY start_ns) AS run
    FROM beside
),
broadcast AS (
    SELECT trace_id, arg_min(event_id, start_ns) FILTER (name = 'aten::flatten_dense_tensors') AS event_id,
           pid, tid, min(start_ns) FILTER (name = 'aten::flatten_dense_tensors') AS start_ns,
           max(end_ns) AS end_ns
    FROM numbered WHERE is_part GROUP BY trace_id, pid, tid, parent_id, run
    HAVING list_has_all(list(name), ['aten::flatten_dense_tensors', 'c10d::broadcast_',
        'aten::unflatten_dense_tensors'])
)
SELECT *, 'buffers' AS copied FROM broadcast
UNION ALL
SELECT trace_id, event_id, pid, tid, start_ns, end_ns, 'gradients'
FROM operator WHERE name = 'torch.distributed.ddp.reducer::copy_bucket_to_grad'
