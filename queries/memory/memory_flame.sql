-- question: Which call paths hold the memory, at the peak or at the end?
-- since: 0.1
-- params moment
-- columns node, parent, depth, name
-- column kind (text): device or frame
-- columns allocations, live_bytes
-- column from_bytes (bytes): left edge of the frame in a drawing
-- doubts: no_memory_events
-- Paths below thresholds().drawn_share are left out.
WITH RECURSIVE live AS MATERIALIZED (
    FROM allocation WHERE is_asked(trace_id)
        AND if(coalesce(getvariable('moment'), 'peak') = 'end', end_ns IS NULL, at_peak)
),
-- The frames around each allocation: from its stack, else from the slices around it.
inner_frame AS (
    SELECT DISTINCT trace_id, stack_id > 0 IS TRUE AS in_stack,
           CASE WHEN stack_id > 0 THEN stack_id ELSE slice_id END AS leaf
    FROM live WHERE stack_id > 0 OR slice_id IS NOT NULL
),
frame AS MATERIALIZED (
    SELECT trace_id, TRUE AS in_stack, stack_id AS frame_id, nullif(parent_id, 0) AS parent_id, name
    FROM stack_frame WHERE trace_id IN (SELECT trace_id FROM inner_frame WHERE in_stack)
    UNION ALL
    SELECT h.trace_id, FALSE, h.event_id, parent_id, path_name(name, kind, traits)
    FROM thread_slice AS h JOIN slices AS s USING (trace_id, event_id)
    WHERE h.trace_id IN (SELECT trace_id FROM inner_frame WHERE NOT in_stack)
),
around AS (
    SELECT i.*, f.parent_id, [f.name] AS names
    FROM inner_frame AS i JOIN frame AS f
      ON i.trace_id = f.trace_id AND i.in_stack = f.in_stack AND i.leaf = f.frame_id
    UNION ALL
    SELECT a.trace_id, a.in_stack, a.leaf, f.parent_id, list_prepend(f.name, names)
    FROM around AS a JOIN frame AS f
      ON a.trace_id = f.trace_id AND a.in_stack = f.in_stack AND a.parent_id = f.frame_id
),
whole AS (
    SELECT l.trace_id, list_prepend(CASE WHEN device_type = 0 THEN 'the host'
                   ELSE concat('device ', device_id) END, coalesce(names, ['not recorded'])) AS names,
           count(*) AS allocations, sum(bytes)::BIGINT AS bytes
    FROM live AS l LEFT JOIN (FROM around WHERE parent_id IS NULL) AS a
      ON l.trace_id = a.trace_id AND (l.stack_id > 0 IS TRUE) = a.in_stack
          AND CASE WHEN stack_id > 0 THEN stack_id ELSE slice_id END = leaf
    GROUP BY ALL
),
path AS (
    SELECT trace_id, names[:depth + 1] AS names, depth, sum(allocations)::BIGINT AS count,
           sum(bytes)::BIGINT AS bytes
    FROM (SELECT *, unnest(range(len(names))) AS depth FROM whole) GROUP BY ALL
),
drawn AS MATERIALIZED (
    SELECT trace_id, hash(names) AS node, CASE WHEN depth > 0 THEN hash(names[:depth]) END AS parent, depth,
           names[-1] AS name, count, bytes AS host_ns, 0 AS gpu_ns
    FROM path
)
SELECT trace_id, node, parent, depth, name, CASE WHEN depth = 0 THEN 'device' ELSE 'frame' END AS kind,
       count AS allocations, host_ns AS live_bytes, host_from_ns AS from_bytes
FROM laid_out('drawn') ORDER BY trace_id, depth, from_bytes, node
