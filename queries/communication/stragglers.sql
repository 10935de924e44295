-- question: Which rank delays the others, step by step?
-- since: 0.1
-- of: several traces
-- params top
-- columns step, rank, trace_id
-- column collectives (count): number of its collectives that other ranks in this database joined
-- columns total_ns
-- column wire_ns (ns): the part on the wire: the shortest duration over the ranks
-- column waited_ns (ns): the rest: waiting for other ranks
-- column times_last (count): number of collectives for which it arrived last
-- column held_up_ns (ns): total waiting time of the other ranks in these collectives
-- doubts: no_communication, one_rank
-- As in collective_skew. Sends and receives do not count: stages of a pipeline wait for each other by design.
SELECT
    step, rank, trace_id, count(*) AS collectives, sum(dur_ns)::BIGINT AS total_ns,
    sum(wire_ns)::BIGINT AS wire_ns, sum(wait_ns)::BIGINT AS waited_ns,
    count(*) FILTER (is_last) AS times_last, sum_where(awaited_ns, is_last) AS held_up_ns
FROM awaited_collectives WHERE direction IS NULL
GROUP BY step, rank, trace_id
ORDER BY held_up_ns DESC, step, rank, trace_id
LIMIT coalesce(getvariable('top'), 20)
