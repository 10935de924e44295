-- question: When did the collectives with most waiting run on each rank, on one clock?
-- since: 0.1
-- of: several traces
-- params top
-- columns group_key, matched_by, step
-- column place (id): as in collective_skew
-- columns type, rank
-- column trace_id (id): the rank's trace; ranks whose clocks rank_clocks cannot compare are left out
-- column start_ns (ns): when the rank's kernel started, on the clock of the job's first rank
-- columns end_ns
-- column wait_ns (ns): the first part of dur_ns: waiting for the rank that arrived last
-- columns awaited_rank, awaited_ns
-- doubts: no_communication, one_rank
-- The clocks are aligned as in rank_clocks.
WITH call AS (FROM awaited_collectives),
chosen AS (
    SELECT call_key FROM call WHERE is_last ORDER BY awaited_ns DESC, start_ns, trace_id
    LIMIT coalesce(getvariable('top'), 20)
),
first AS (
    SELECT job, arg_min(coalesce(base_time_ns, 0), hops) AS base_ns
    FROM aligned_clocks JOIN jobs USING (trace_id) JOIN trace USING (trace_id) GROUP BY job
)
SELECT
    group_key, matched_by, step, place, type, rank, trace_id,
    coalesce(base_time_ns, 0) - base_ns - offset_ns + start_ns AS start_ns,
    coalesce(base_time_ns, 0) - base_ns - offset_ns + end_ns AS end_ns,
    wait_ns, last_rank AS awaited_rank, awaited_ns
FROM call JOIN chosen USING (call_key) JOIN aligned_clocks USING (trace_id)
JOIN first ON call.job = first.job
ORDER BY start_ns, rank, trace_id
