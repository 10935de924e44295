-- question: Which kernels did each annotated range of the code launch, and what did they cost?
-- since: 0.1
-- params top
-- param annotation (text, default all): only ranges whose name contains this
-- column annotation (text): the range (record_function, profiler step, optimizer ...)
-- column known_from (text): call: the range is around the call that launched it (or launched its graph);
--     capture by node, or capture by order: the range is around its launch in the graph's capture
-- columns name, class
-- column count (count): launches by ranges of that name: its thread began the call inside the range
--     (whatever the kernel's stream and start), or a replay ran work captured inside it
-- columns gpu_ns
-- column exposed_ns (ns): the part of gpu_ns that is compute, or that no compute kernel covers
-- column share_of_annotation (fraction of the annotation's gpu_ns): gpu_ns over that of all the annotation's
--     kernels
-- column innermost_count (count): the part of count with no other annotated range in between
-- column innermost_ns (ns): the part of gpu_ns that no inner range has: over all ranges, each op counts once
-- doubts: no_gpu_ops, no_annotations, unlinked_gpu_ops, absurd_duration
-- HTA's get_gpu_kernels_with_user_annotations (hta/trace_analysis.py) gives each kernel the innermost range
-- whose shadow on the device overlaps it.
WITH op AS MATERIALIZED (
    SELECT o.*, g.device_id, g.name, g.class, g.activity, g.start_ns, g.end_ns, g.dur_ns
    FROM annotated_ops AS o JOIN gpu_ops AS g USING (trace_id, event_id)
),
waiting AS (SELECT DISTINCT {'trace_id': trace_id, 'device_id': device_id} AS key, event_id, start_ns, end_ns
    FROM op WHERE activity <> 'compute'),
compute AS (SELECT {'trace_id': trace_id, 'device_id': device_id} AS key, start_ns, end_ns FROM gpu_ops
    WHERE activity = 'compute'),
covered AS (SELECT key.trace_id AS trace_id, event_id, covered_ns FROM interval_covered('waiting', 'compute'))
SELECT
    o.trace_id, annotation, known_from, o.name, o.class::VARCHAR AS class, count(*) AS count,
    sum(o.dur_ns)::BIGINT AS gpu_ns, sum(o.dur_ns - coalesce(c.covered_ns, 0))::BIGINT AS exposed_ns,
    sum(o.dur_ns) / nullif(sum(sum(o.dur_ns)) OVER (PARTITION BY o.trace_id, annotation), 0)
        AS share_of_annotation,
    count(*) FILTER (is_innermost) AS innermost_count, sum_where(o.dur_ns, is_innermost) AS innermost_ns
FROM op AS o LEFT JOIN covered AS c ON o.trace_id = c.trace_id AND o.event_id = c.event_id
WHERE getvariable('annotation') IS NULL OR contains(annotation, getvariable('annotation'))
GROUP BY o.trace_id, annotation, known_from, o.name, o.class
ORDER BY gpu_ns DESC, annotation, known_from, o.name, trace_id
LIMIT coalesce(getvariable('top'), 20)
