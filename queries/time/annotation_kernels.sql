-- question: Which kernels did each annotated range of the code launch, and what did they cost?
-- params trace, top
-- param annotation (text, default all): only ranges whose name contains this
-- columns trace_id
-- column annotation (text): the range (record_function, profiler step, optimizer ...)
-- columns name, class
-- column count (count): how often a range of that name launched it: its thread began the call inside the
--     range, whatever the stream and start of the kernel
-- columns gpu_ns
-- column exposed_ns (ns): the part of gpu_ns that is compute, or communication and copies that no compute
--     kernel covers
-- column share_of_annotation (fraction of the annotation's gpu_ns): gpu_ns over that of all kernels that the
--     annotation launched
-- column innermost_count (count): the part of count with no other annotated range in between
-- column innermost_ns (ns): the part of gpu_ns with no other annotated range in between: over all annotations
--     this counts each op once
-- doubts: no_gpu_ops, no_annotations, unlinked_gpu_ops, absurd_duration
-- HTA's get_gpu_kernels_with_user_annotations gives each kernel the innermost range whose shadow on the
-- device overlaps it:
-- https://github.com/facebookresearch/HolisticTraceAnalysis/blob/main/hta/trace_analysis.py
WITH range AS (
    SELECT trace_id, pid, tid, event_id, name, start_ns, end_ns, dur_ns FROM annotations
    WHERE side = 'host' AND trace_id = coalesce(getvariable('trace'), trace_id)
),
slice AS (
    SELECT * EXCLUDE name FROM range
    UNION ALL
    SELECT trace_id, pid, tid, launch_id, start_ns, start_ns, 0 FROM launch_call
    WHERE trace_id = coalesce(getvariable('trace'), trace_id)
),
nest AS MATERIALIZED (FROM nested('slice')),
-- Each range with its own name and the names of the ranges around it.
named AS (
    WITH RECURSIVE around AS (
        SELECT n.trace_id, n.event_id, n.event_id AS at_id, n.parent_id, 0 AS level
        FROM nest AS n SEMI JOIN range USING (trace_id, event_id)
        UNION ALL
        SELECT a.trace_id, a.event_id, n.event_id, n.parent_id, level + 1
        FROM around AS a JOIN nest AS n ON a.trace_id = n.trace_id AND a.parent_id = n.event_id
    )
    SELECT a.trace_id, a.event_id, r.name, min(level) = 0 AS is_innermost
    FROM around AS a JOIN range AS r ON a.trace_id = r.trace_id AND a.at_id = r.event_id
    GROUP BY ALL
),
op AS MATERIALIZED (
    SELECT g.trace_id, g.event_id, g.device_id, g.name, g.class, g.activity, g.start_ns, g.end_ns, g.dur_ns,
           n.parent_id AS range_id
    FROM nest AS n JOIN gpu_op_launch AS l ON n.trace_id = l.trace_id AND n.event_id = l.launch_id
    JOIN gpu_ops AS g ON l.trace_id = g.trace_id AND l.event_id = g.event_id
    WHERE n.parent_id IS NOT NULL
),
waiting AS (SELECT {'trace_id': trace_id, 'device_id': device_id} AS key, event_id, start_ns, end_ns FROM op
    WHERE activity <> 'compute'),
compute AS (SELECT {'trace_id': trace_id, 'device_id': device_id} AS key, start_ns, end_ns FROM gpu_ops
    WHERE activity = 'compute'),
covered AS (SELECT key.trace_id AS trace_id, event_id, covered_ns FROM interval_covered('waiting', 'compute'))
SELECT
    o.trace_id, n.name AS annotation, o.name, o.class::VARCHAR AS class, count(*) AS count,
    sum(o.dur_ns)::BIGINT AS gpu_ns, sum(o.dur_ns - coalesce(c.covered_ns, 0))::BIGINT AS exposed_ns,
    sum(o.dur_ns) / nullif(sum(sum(o.dur_ns)) OVER (PARTITION BY o.trace_id, n.name), 0)
        AS share_of_annotation,
    count(*) FILTER (is_innermost) AS innermost_count, sum_where(o.dur_ns, is_innermost) AS innermost_ns
FROM op AS o JOIN named AS n ON o.trace_id = n.trace_id AND o.range_id = n.event_id
LEFT JOIN covered AS c ON o.trace_id = c.trace_id AND o.event_id = c.event_id
WHERE getvariable('annotation') IS NULL OR contains(n.name, getvariable('annotation'))
GROUP BY o.trace_id, n.name, o.name, o.class
ORDER BY gpu_ns DESC, annotation, o.name, trace_id
LIMIT coalesce(getvariable('top'), 20)
