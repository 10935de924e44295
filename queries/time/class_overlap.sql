-- question: Which kinds of work overlapped on the GPU, and for how long?
-- since: 0.1
-- columns device_id
-- column classes (list of text): kernel classes, memcpy and memset that ran at once; empty: the GPU was idle
-- column overlap (text): compute, communication, copy, several of them (compute + communication) or idle
-- column covered_ns (ns): time covered by exactly these; the rows of a device add up to its GPU-active span
-- column share_of_active (fraction of the GPU-active span): covered_ns over first op's start to last end
-- doubts: no_gpu_ops, absurd_duration, stream_overlap
WITH running AS (
    SELECT {'trace_id': trace_id, 'device_id': device_id} AS key, class AS label, start_ns, end_ns
    FROM gpu_ops WHERE is_asked(trace_id)
),
active AS (SELECT key, max(end_ns) - min(start_ns) AS span_ns FROM running GROUP BY key),
busy AS (SELECT key, labels, sum(end_ns - start_ns)::BIGINT AS covered_ns FROM interval_labels('running')
    GROUP BY key, labels),
covered AS (
    FROM busy
    UNION ALL
    SELECT key, [], any_value(span_ns) - coalesce(sum(covered_ns), 0)::BIGINT
    FROM active LEFT JOIN busy USING (key) GROUP BY key
)
SELECT
    key.trace_id, key.device_id, labels AS classes,
    concat_ws(' + ',
        CASE WHEN len(list_filter(labels, lambda x: x NOT IN ('communication', 'memcpy', 'memset'))) > 0
            THEN 'compute' END,
        CASE WHEN list_contains(labels, 'communication') THEN 'communication' END,
        CASE WHEN list_has_any(labels, ['memcpy', 'memset']) THEN 'copy' END,
        CASE WHEN len(labels) = 0 THEN 'idle' END) AS overlap,
    covered_ns, covered_ns / nullif(span_ns, 0) AS share_of_active
FROM covered JOIN active USING (key)
ORDER BY key, covered_ns DESC, classes
