-- fact: A kernel of known work, with its part of its operator's, by time.
-- of: unworked_kernel, operator_work
-- scope: all
-- Only kernels that share their name with one of unknown work.
CREATE TABLE _scratch.known_kernel AS
SELECT g.trace_id, g.device_id, g.event_id, g.label_id, g.grid, g.dur_ns, is_matrix, peak,
       least(1, g.dur_ns / busy_ns) AS part, part * flops AS flops,
       part * (read_bytes + written_bytes) AS moved, part * weight_bytes AS weight_bytes
FROM (SELECT *, unnest(gpu_op_ids) AS op_id FROM all_work) AS w
JOIN gpu_ops AS g ON w.trace_id = g.trace_id AND op_id = g.event_id
WHERE g.kind = 'kernel' AND label_id IN (
    SELECT label_id FROM gpu_ops SEMI JOIN unworked_kernel USING (trace_id, event_id))
