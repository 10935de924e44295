-- fact: A kernel whose work no operator's shapes tell.
-- needs: operator_time, replayed_work
-- of: gpu_ops
-- scope: all
CREATE TABLE unworked_kernel (
    trace_id INTEGER, event_id BIGINT -- the kernel
);
SELECT trace_id, event_id
FROM gpu_ops
ANTI JOIN (SELECT trace_id, unnest(gpu_op_ids) AS event_id FROM all_work) USING (trace_id, event_id)
WHERE kind = 'kernel' AND activity = 'compute'
