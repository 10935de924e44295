-- question: How much of the kernels' time is of work that is known, so that it can be held against a limit?
-- since: 0.1
-- columns device_id
-- column class (text): class of the kernels; communication is limited by links, and its work is not counted
-- column kernel_ns (ns): their summed time
-- column modelled_ns (ns): the part of it whose FLOPs and bytes are known, or a lower bound of them
-- column exact_ns (ns): the part of that from recorded shapes, of the operator or of the capture that a graph
--     replays
-- column share (fraction of kernel_ns): modelled_ns over it
-- doubts: no_gpu_ops, no_shapes, unlinked_gpu_ops, unknown_graphs, absurd_duration
SELECT k.trace_id, k.device_id, class::VARCHAR AS class, sum(dur_ns)::BIGINT AS kernel_ns,
       sum_where(dur_ns, is_exact IS NOT NULL) AS modelled_ns, sum_where(dur_ns, is_exact) AS exact_ns,
       modelled_ns / nullif(kernel_ns, 0) AS share
FROM gpu_ops AS k LEFT JOIN (SELECT trace_id, event_id, is_exact FROM op_limit) USING (trace_id, event_id)
WHERE kind = 'kernel' AND is_asked(k.trace_id)
GROUP BY k.trace_id, k.device_id, class
ORDER BY k.trace_id, k.device_id, kernel_ns DESC, class
