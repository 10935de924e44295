-- question: How long did the kernels under each scope take, by a file that has only totals?
-- since: 0.1
-- column path (text): names of scopes and of a kernel, from the outermost
-- column depth (count): of the path: 1 is outermost
-- column count (count): kernel launches at the path and below
-- column gpu_ns (ns): sum of their kernels' times
-- column share (fraction of the time of all kernels): gpu_ns over it
-- column flops (floating-point operations): what the program said that they compute (`flops8` to `flops64`);
--     NULL: nothing
-- column moved_bytes (bytes): what the program said that they move (`bytes`); NULL: nothing
-- columns tflop_per_s, gb_per_s
-- doubts: tree_of_totals
-- Triton's Proton with data="tree"; traces with a time line have top_kernels and annotation_kernels.
WITH node AS (
    SELECT trace_id, CAST(args->'path' AS VARCHAR[]) AS names, TRY_CAST(args->>'count' AS BIGINT) AS calls,
           TRY_CAST(args->>'time_ns' AS BIGINT) AS ns, TRY_CAST(args->>'bytes' AS DOUBLE) AS bytes,
           list_sum(list_transform(['flops8', 'flops16', 'flops32', 'flops64', 'flops'],
               lambda key: TRY_CAST(args->>key AS DOUBLE))) AS flops
    FROM event_row JOIN label USING (trace_id, label_id)
    WHERE category = 'proton_tree' AND is_asked(trace_id)
),
above AS (
    SELECT n.* EXCLUDE names, names[:depth] AS names, depth
    FROM node AS n, unnest(range(1, len(names) + 1)) AS d (depth)
),
whole AS (SELECT trace_id, sum(ns) AS ns FROM node GROUP BY trace_id)
SELECT trace_id, array_to_string(names, ' > ') AS path, depth, coalesce(sum(calls), 0)::BIGINT AS count,
       coalesce(sum(a.ns), 0)::BIGINT AS gpu_ns, gpu_ns / nullif(any_value(w.ns), 0) AS share,
       sum(flops) AS flops, sum(bytes)::BIGINT AS moved_bytes, sum(flops) / gpu_ns / 1e3 AS tflop_per_s,
       sum(bytes) / gpu_ns AS gb_per_s
FROM above AS a JOIN whole AS w USING (trace_id)
GROUP BY trace_id, names, depth
ORDER BY trace_id, gpu_ns DESC, names
