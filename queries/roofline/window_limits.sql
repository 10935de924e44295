-- question: How fast could the device do the work of the run, and of a unit, at its peaks?
-- since: 0.1
-- columns device_id
-- column kind (text): gpu_active (first GPU op to last), or the kind of unit (step, prefill, decode ...): of
--     those that do the same work, the one of median length
-- column group_id (count): the number of the units' group; NULL: gpu_active
-- column span_ns (ns): the length
-- column floor_ns (ns): what the work takes at least as it is launched: of the stream that needs longest, its
--     ops one after another, each at the nearer roof; of all streams together, the products' FLOPs (at the
--     clock that the device had, where it is recorded), the collectives, and the bytes as far as no cache
--     answers faster. Ops of unknown work count as 0. NULL: no peaks are known
-- column must_ns (ns): what no fusion removes, the longest of: the products' FLOPs; the collectives at the
--     peak of the device's links; where nothing is trained, reading the weights and caches
-- column mfu (fraction of span_ns): the time of the products' FLOPs at the device's peak; NULL: unknown
-- column mbu (fraction of span_ns): the time of reading the weights and caches at the memory's bandwidth; in
--     training 0
-- column modelled (fraction of kernel time): the kernels of known work or of a lower bound, by time;
--     communication is not counted; NULL: no other kernels
-- column exact (fraction of kernel time): those of known work
-- doubts: no_gpu_ops, no_shapes, unlinked_gpu_ops, unknown_graphs, unknown_device, absurd_duration
-- MFU: PaLM, https://arxiv.org/abs/2204.02311, appendix B; recomputation counts. MBU:
-- https://www.databricks.com/blog/llm-inference-performance-engineering-best-practices
-- A stream runs its ops one after another; all streams share the memory, the links and the tensor cores.
WITH span AS MATERIALIZED (
    SELECT trace_id, kind, NULL AS group_id, start_ns, end_ns, device_id AS of_device
    FROM windows WHERE kind = 'gpu_active' AND is_asked(trace_id)
    UNION ALL
    SELECT trace_id, kind, group_id, begin_ns, complete_ns, NULL FROM unit
    WHERE is_median AND is_asked(trace_id)
),
stream AS (
    SELECT s.trace_id, g.device_id, s.kind, group_id, s.end_ns - s.start_ns AS span_ns,
           sum(g.dur_ns) FILTER (activity = 'compute') AS kernel_ns,
           sum(g.dur_ns) FILTER (activity = 'compute' AND is_exact IS NOT NULL) AS known_ns,
           sum(g.dur_ns) FILTER (activity = 'compute' AND is_exact) AS exact_ns,
           sum(least_ns) AS least_ns, sum(least(far_ns, g.dur_ns)) FILTER (least_ns IS NOT NULL) AS memory_ns,
           -- Where the peak is unknown, math_ns is NULL, which `least` would ignore.
           sum(least(math_ns, g.dur_ns))
               FILTER (is_matrix AND math_ns IS NOT NULL AND least_ns IS NOT NULL) AS math_ns,
           sum(least_ns) FILTER (source = 'collective') AS link_ns, sum(weight_bytes) AS weight_bytes
    FROM span AS s
    JOIN gpu_ops AS g ON s.trace_id = g.trace_id AND coalesce(of_device, g.device_id) = g.device_id
        AND g.start_ns >= s.start_ns AND g.start_ns < s.end_ns
    LEFT JOIN op_limit AS l ON g.trace_id = l.trace_id AND g.event_id = l.event_id
    GROUP BY s.trace_id, g.device_id, s.kind, group_id, s.start_ns, s.end_ns, g.stream
),
device AS (
    SELECT trace_id, device_id, kind, group_id, span_ns, coalesce(max(least_ns), 0) AS longest_ns,
           coalesce(sum(COLUMNS('^(kernel|known|exact|memory|math|link)_ns$')), 0),
           coalesce(sum(weight_bytes), 0) AS weight_bytes
    FROM stream GROUP BY ALL
),
timed AS (
    SELECT d.* EXCLUDE weight_bytes, hardware IS NOT NULL AS has_peaks, memory_bytes_per_s, cache_bytes,
           math_ns / least(1, coalesce(mhz / clock_mhz, 1)) AS slowed_ns,
           if(trace_id IN (FROM learning_traces), 0, weight_bytes) AS weight_bytes
    FROM device AS d JOIN device_peaks USING (trace_id, device_id)
    LEFT JOIN busy_clocks USING (trace_id, device_id)
)
SELECT trace_id, device_id, kind, group_id, span_ns,
       TRY_CAST(if(has_peaks, greatest(longest_ns, memory_ns, slowed_ns, link_ns), NULL) AS BIGINT)
           AS floor_ns,
       TRY_CAST(if(has_peaks, greatest(slowed_ns, link_ns,
           (weight_bytes - coalesce(cache_bytes, thresholds().cached_bytes)) * 1e9 / memory_bytes_per_s),
           NULL) AS BIGINT) AS must_ns,
       if(has_peaks, math_ns / span_ns, NULL) AS mfu,
       weight_bytes * 1e9 / memory_bytes_per_s / span_ns AS mbu,
       known_ns / nullif(kernel_ns, 0) AS modelled, exact_ns / nullif(kernel_ns, 0) AS exact
FROM timed
ORDER BY trace_id, device_id, span_ns DESC, group_id
