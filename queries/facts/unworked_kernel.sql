-- fact: A kernel whose work no operator's shapes tell.
-- needs: operator_time, replayed_work
-- of: gpu_ops
-- scope: all
CREATE TABLE unworked_kernel (
    trace_id INTEGER, event_id BIGINT -- the kernel
);
SELECT trace_id, event_id FROM gpu_ops
WHERE kind = 'kernel' AND activity = 'compute'
    AND (trace_id, event_id) NOT IN (SELECT (trace_id, unnest(gpu_op_ids)) FROM all_work)
