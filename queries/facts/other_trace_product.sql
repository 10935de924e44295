-- fact: The least work of a product in a graph's replay, by another trace of the same model.
-- into: kernel_bound
-- of: matched_product
-- scope: all
-- Its tokens are those of the server's step, or at least one.
SELECT trace_id, event_id, 'other trace', TRUE, w.peak, 2 * tokens * w.outputs * w.sums,
       w.bytes * (1 + tokens / w.outputs + tokens / w.sums), w.bytes
FROM _scratch.matched_product SEMI JOIN unworked_kernel USING (trace_id, event_id)
