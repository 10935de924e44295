-- question: Which rank delays the others, step by step?
-- since: 0.1
-- of: several traces
-- params top
-- columns step, rank, trace_id
-- column collectives (count): its collectives that other ranks in this database took part in
-- columns total_ns
-- column wire_ns (ns): the part of it on the wire: the shortest duration over the ranks
-- column waited_ns (ns): the rest: waiting for others
-- column times_last (count): collectives for which it came last
-- column held_up_ns (ns): time for which all others together waited in these
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
