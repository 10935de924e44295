-- question: How fast could the device do its work in each window and unit, at its peaks?
-- since: 0.1
-- columns device_id
-- column kind (text): gpu_active (first GPU op to last), step, trace (first host slice or GPU op to last), or
--     unit: of the units that do the same work, the one of median length
-- column name (text): of the window; the unit's kind
-- column group_id (count): the number of the unit's group; NULL: a window
-- column span_ns (ns): the length of the window or unit
-- column floor_ns (ns): what the work takes at least as it is launched: of the stream that needs longest, its
--     ops one after another, each at the nearer roof; of all streams together, the products' FLOPs (at the
--     clock that the device had, where it is recorded), the collectives, and the bytes as far as no cache
--     answers faster. Ops of unknown work count as 0. NULL: no peaks are known
-- column must_ns (ns): what no fusion removes, the longest of: the products' FLOPs; the collectives at the
--     peak of the device's links; where nothing is trained, reading the weights and caches
-- column mfu (fraction of span_ns): the time of the products' FLOPs at the device's peak
-- column mbu (fraction of span_ns): the time of reading the weights and caches at the memory's bandwidth; in
--     training 0
-- column modelled (fraction of kernel time): the kernels of known work or of a lower bound, by time;
--     communication is not counted
-- column exact (fraction of kernel time): those of known work
-- doubts: no_gpu_ops, no_shapes, unlinked_gpu_ops, unknown_graphs, unknown_device, absurd_duration
-- MFU: PaLM, https://arxiv.org/abs/2204.02311, appendix B; recomputation counts. MBU:
-- https://www.databricks.com/blog/llm-inference-performance-engineering-best-practices
WITH span AS MATERIALIZED (
    SELECT {'trace_id': trace_id, 'device_id': device_id, 'kind': kind, 'name': name, 'group_id': NULL}
               AS key,
           start_ns, end_ns
    FROM windows WHERE is_asked(trace_id)
    UNION ALL
    SELECT {'trace_id': trace_id, 'device_id': NULL, 'kind': 'unit', 'name': kind, 'group_id': group_id},
           begin_ns, complete_ns
    FROM median_units WHERE is_asked(trace_id)
)
SELECT key.trace_id AS trace_id, device_id, key.kind AS kind, key.name AS name, key.group_id AS group_id,
       span_ns, floor_ns, must_ns, math_ns / span_ns AS mfu, weights_ns / span_ns AS mbu,
       modelled_ns / kernel_ns AS modelled, exact_ns / kernel_ns AS exact
FROM floors('span') WHERE coalesce(key.device_id = device_id, TRUE)
ORDER BY trace_id, device_id, kind, span_ns DESC, name, group_id
