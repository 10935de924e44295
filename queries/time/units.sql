-- question: What does the run do again and again, and how long does one take?
-- since: 0.1
-- params top
-- column level (count): 1 is outermost; units of level 2 and 3 are parts of others
-- column kind (text): step, prefill, decode, mixed, pass, layer or iteration
-- column source (text): how the units are known: mark, server, frame, range, graph, sequence; single: nothing
--     repeats
-- columns name
-- column group_id (count): the number of a group of units that do the same work
-- column count (count): units in the group
-- column whole (count): units that the recording does not cut off
-- column cold (count): units of which first-call work takes a large part
-- column start_ns (ns): the begin of the one of median length
-- column end_ns (ns): its completion
-- column first_ns (ns): the length of the first one that is whole, as of the next
-- columns min_ns
-- column median_ns (ns): half of the units are shorter
-- columns max_ns
-- column trend (text): settling (the first third takes longer than the last), growing or
--     steady; NULL: too few
-- column launches (count): in a unit, the median
-- column gpu_ops (count): launched in a unit, the median
-- column passes (count): units in a unit that are no layers, the median
-- column requests (count): of all units; NULL of this and the next: unknown
-- column tokens (count): read and generated in all units
-- column is_main (boolean): the run is judged by these units
-- doubts: no_gpu_ops, unlinked_gpu_ops, absurd_duration
-- A unit's length is from its begin, when the host begins it and the device has finished what was launched
-- before, to its completion, when the host has left it and the device has finished what was launched so far.
SELECT
    trace_id, level, kind, any_value(source) AS source, mode(name ORDER BY units.start_ns) AS name, group_id,
    count(*) AS count, count(*) FILTER (is_whole) AS whole, count(*) FILTER (is_cold) AS cold,
    any_value(begin_ns) FILTER (is_median) AS start_ns, any_value(complete_ns) FILTER (is_median) AS end_ns,
    arg_min(whole_ns, units.start_ns) AS first_ns, min(whole_ns) AS min_ns,
    percentile(list(whole_ns), 50) AS median_ns, max(whole_ns) AS max_ns,
    trend_of(list(whole_ns ORDER BY units.start_ns) FILTER (whole_ns IS NOT NULL)) AS trend,
    percentile(list(launches), 50) AS launches, percentile(list(gpu_ops), 50) AS gpu_ops,
    percentile(list(coalesce(passes, 0)), 50) AS passes,
    sum(requests)::BIGINT AS requests, sum(tokens)::BIGINT AS tokens,
    (trace_id, group_id) IN (SELECT (trace_id, group_id) FROM judged_steps WHERE is_main) AS is_main
FROM (
    SELECT *, if(is_whole OR NOT bool_or(is_whole) OVER (PARTITION BY trace_id, pid, level, kind, group_id),
        dur_ns, NULL) AS whole_ns FROM units
) AS units
LEFT JOIN (SELECT trace_id, parent_id AS unit_id, count(*) AS passes FROM unit
    WHERE parent_id IS NOT NULL AND kind <> 'layer' GROUP BY ALL) USING (trace_id, unit_id)
WHERE is_asked(trace_id)
GROUP BY trace_id, pid, level, kind, group_id
ORDER BY trace_id, level, sum(dur_ns) DESC, group_id
LIMIT coalesce(getvariable('top'), 20)
