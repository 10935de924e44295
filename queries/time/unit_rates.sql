-- question: How many units and tokens a second does the run get through, and how long does a token take?
-- since: 0.1
-- columns trace_id, rank
-- column kind (text): step, prefill, decode, mixed, pass, layer or iteration, of the outermost level
-- column group_id (count): units that do the same work have the same
-- columns count
-- column period_ns (ns): from one unit's completion to that of the next in the group, the median; of a single
--     one, its length
-- column units_per_s (units per second): one per period
-- column launches_per_unit (launches per unit): the median
-- column tokens_per_s (tokens per second): those read and generated in a unit, the mean, over the period;
--     NULL of this and the next: unknown
-- column ns_per_token (ns per token): of decodes, the time from a request's token to its next one; of others,
--     the period over a unit's tokens
-- column first_token_ns (ns): of prefills, the median length: the time to the first token, without the wait
--     for the prefill to begin; NULL: no prefill
-- doubts: no_gpu_ops, unlinked_gpu_ops, absurd_duration
WITH turn AS (
    SELECT *, if(lag(group_id) OVER in_turn = group_id, complete_ns - lag(complete_ns) OVER in_turn, NULL)
               AS since_last_ns
    FROM units WHERE level = 1 AND is_asked(trace_id)
    WINDOW in_turn AS (PARTITION BY trace_id, pid ORDER BY begin_ns, unit_id)
),
grouped AS (
    SELECT trace_id, pid, kind, group_id, count(*) AS count, percentile(list(dur_ns), 50) AS length_ns,
           coalesce(percentile(list(since_last_ns) FILTER (since_last_ns > 0), 50), length_ns) AS period_ns,
           percentile(list(launches), 50) AS launches_per_unit, avg(requests) AS requests,
           avg(tokens) AS tokens
    FROM turn WHERE is_whole GROUP BY ALL
)
SELECT trace_id, rank, kind, group_id, count, period_ns, 1e9 / nullif(period_ns, 0) AS units_per_s,
       launches_per_unit, tokens * units_per_s AS tokens_per_s,
       period_ns / nullif(if(kind = 'decode', tokens / nullif(requests, 0), tokens), 0) AS ns_per_token,
       CASE kind WHEN 'prefill' THEN length_ns END AS first_token_ns
FROM grouped JOIN trace USING (trace_id)
ORDER BY trace_id, count * period_ns DESC, group_id
