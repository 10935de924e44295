-- question: What did hardware counters count for each kernel, and which operator launched it?
-- since: 0.1
-- column place (count): position among the trace's counted kernels, from 1
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
called AS (FROM launch LEFT JOIN thread_slice USING (trace_id, event_id))
SELECT trace_id, place, r.name AS kernel, counter, TRY_CAST(r.args->>counter AS DOUBLE) AS value,
       name_of(trace_id, cpu_op_id) AS cpu_op, name_of(trace_id, outer_op_id) AS top_level_op,
       line_of(trace_id, line_id, python_id) AS python_line
FROM (SELECT *, unnest(json_keys(args)) AS counter FROM range) AS r
LEFT JOIN called USING (trace_id, place, n)
ORDER BY trace_id, place, counter
