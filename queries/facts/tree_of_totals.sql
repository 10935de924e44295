-- fact: A tree of totals, in which nothing has a time.
-- into: recorder_finding
-- when: (SELECT bool_or(profiler = 'proton (tree)') FROM trace)
WITH node AS (
    SELECT trace_id, event_id, name, (args->>'time_ns')::BIGINT AS time_ns, (args->>'count')::BIGINT AS calls
    FROM event_row JOIN label USING (trace_id, label_id)
    WHERE category = 'proton_tree'
        AND trace_id IN (SELECT trace_id FROM trace WHERE profiler = 'proton (tree)')
)
SELECT trace_id, 'tree_of_totals' AS code, 'error' AS severity, count(*) AS count,
       format('{:,} kernel launches took {}, most in {}; the file has only totals, no time line',
           coalesce(sum(calls), 0)::BIGINT, duration_text(coalesce(sum(time_ns), 0)::BIGINT),
           coalesce(arg_max(name, time_ns), 'nothing')) AS message,
       NULL::BIGINT AS time_ns, NULL::BIGINT AS event_id
FROM node GROUP BY trace_id
