-- question: What did hardware counters count for each kernel, and which operator launched it?
-- params trace
-- columns trace_id
-- column place (count): place among the trace's counted kernels, from 1
-- column kernel (text): the kernel that was counted
-- column counter (text): the counter
-- column value (counter's own unit): what it counted
-- column cpu_op (text): the operator that launched it; NULL: launches and kernels differ in number
-- column top_level_op (text): the outermost operator around that
-- columns python_line
-- doubts: no_counters
-- CUPTI's range profiler runs kernels one by one and reports them in the order of their launches
-- (https://docs.nvidia.com/cupti/main/main.html#cupti-range-profiling-api); where counts agree, the n-th
-- range is of the n-th launch.
WITH range AS (
    SELECT trace_id, event_id, name, args,
           row_number() OVER (PARTITION BY trace_id ORDER BY start_ns, event_id) AS place,
           count(*) OVER (PARTITION BY trace_id) AS n
    FROM slices WHERE kind = 'counter_range' AND trace_id = coalesce(getvariable('trace'), trace_id)
),
launch AS (
    SELECT trace_id, event_id, row_number() OVER (PARTITION BY trace_id ORDER BY start_ns, event_id) AS place,
           count(*) OVER (PARTITION BY trace_id) AS n
    FROM launches WHERE launched_kind = 'kernel' AND trace_id IN (SELECT trace_id FROM range)
),
-- All operators around each launch: the outermost is the one without another around it.
operator AS (
    SELECT trace_id, pid, tid, event_id, name, start_ns, end_ns, dur_ns FROM cpu_ops
    WHERE trace_id IN (SELECT trace_id FROM range)
),
named AS (SELECT trace_id, pid, tid, '' AS name, event_id, name AS operator, start_ns, end_ns FROM operator),
outermost AS (SELECT * FROM outermost('named', of_name := TRUE)),
site AS (FROM call_site('launch')),
called AS (
    SELECT l.trace_id, l.event_id, s.cpu_op, s.python_line,
           CASE WHEN c.start_ns < o.end_ns THEN o.operator END AS top_level_op
    FROM launch AS l
    JOIN (SELECT trace_id, event_id, pid, tid, start_ns FROM launches) AS c ON l.trace_id = c.trace_id
        AND l.event_id = c.event_id
    LEFT JOIN site AS s ON l.trace_id = s.trace_id AND l.event_id = s.event_id
    ASOF LEFT JOIN outermost AS o ON c.trace_id = o.trace_id AND c.pid = o.pid AND c.tid = o.tid
        AND c.start_ns >= o.start_ns
),
counted AS (SELECT trace_id, event_id, name, place, n, unnest(json_keys(args)) AS counter, args FROM range)
SELECT r.trace_id, r.place, r.name AS kernel, counter, TRY_CAST(r.args->>counter AS DOUBLE) AS value, cpu_op,
       top_level_op, python_line
FROM counted AS r LEFT JOIN launch AS l ON r.trace_id = l.trace_id AND r.place = l.place AND r.n = l.n
LEFT JOIN called AS c ON l.trace_id = c.trace_id AND l.event_id = c.event_id
ORDER BY r.trace_id, r.place, counter
