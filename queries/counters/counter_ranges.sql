-- question: What did hardware counters count for each kernel, and which operator launched it?
-- column place (count): place among the trace's counted kernels, from 1
-- column kernel (text): the kernel that was counted
-- column counter (text): the counter
-- column value (counter's own unit): the counted value
-- column cpu_op (text): the operator that launched it; NULL: launches and kernels differ in number
-- column top_level_op (text): the outermost operator around cpu_op
-- columns python_line
-- doubts: no_counters
-- CUPTI's range profiler runs kernels one by one and reports them in the order of their launches
-- (https://docs.nvidia.com/cupti/main/main.html#cupti-range-profiling-api); where counts agree, the n-th
-- range is of the n-th launch.
WITH range AS (
    SELECT trace_id, name, args, count(*) OVER (PARTITION BY trace_id) AS n,
           row_number() OVER (PARTITION BY trace_id ORDER BY start_ns, event_id) AS place
    FROM slices WHERE kind = 'counter_range' AND is_asked(trace_id)
),
launch AS (
    SELECT trace_id, event_id, row_number() OVER (PARTITION BY trace_id ORDER BY start_ns, event_id) AS place,
           count(*) OVER (PARTITION BY trace_id) AS n
    FROM launches WHERE launched_kind = 'kernel' AND trace_id IN (SELECT trace_id FROM range)
),
called AS (
    SELECT l.*, s.cpu_op, s.python_line, o.name AS top_level_op
    FROM launch AS l LEFT JOIN (FROM call_site('launch')) AS s USING (trace_id, event_id)
    LEFT JOIN host_site AS h ON l.trace_id = h.trace_id AND l.event_id = h.event_id
    LEFT JOIN event AS o ON h.trace_id = o.trace_id AND h.outer_op_id = o.event_id
)
SELECT trace_id, place, r.name AS kernel, counter, TRY_CAST(r.args->>counter AS DOUBLE) AS value, cpu_op,
       top_level_op, python_line
FROM (SELECT *, unnest(json_keys(args)) AS counter FROM range) AS r
LEFT JOIN called USING (trace_id, place, n)
ORDER BY trace_id, place, counter
