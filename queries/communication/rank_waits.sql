-- question: Which rank waits for which, and for how long?
-- since: 0.1
-- of: several traces
-- param top (integer, default 20): number of awaited ranks, longest waits first
-- columns awaited_rank
-- column awaited_trace_id (id): the awaited rank's trace
-- column waiting_rank (id): a rank that arrived earlier
-- column waiting_trace_id (id): the waiting rank's trace
-- column collectives (count): number of collectives in which it waited
-- column wait_ns (ns): waiting time: the sum over awaited ranks is the rank's waited_ns in stragglers
-- columns awaited_ns
-- doubts: no_communication, one_rank
-- As in collective_skew, without sends and receives.
WITH collective AS MATERIALIZED (
    SELECT rank, trace_id, last_rank, last_trace_id, is_last, wait_ns FROM awaited_collectives
    WHERE direction IS NULL
),
awaited AS (
    SELECT last_trace_id, sum(wait_ns)::BIGINT AS awaited_ns FROM collective
    GROUP BY last_trace_id ORDER BY awaited_ns DESC, last_trace_id LIMIT coalesce(getvariable('top'), 20)
)
SELECT
    c.last_rank AS awaited_rank, c.last_trace_id AS awaited_trace_id, c.rank AS waiting_rank,
    c.trace_id AS waiting_trace_id, count(*) AS collectives, sum(c.wait_ns)::BIGINT AS wait_ns, a.awaited_ns
FROM collective AS c JOIN awaited AS a USING (last_trace_id)
WHERE NOT c.is_last
GROUP BY ALL
ORDER BY a.awaited_ns DESC, awaited_trace_id, waiting_rank, waiting_trace_id
