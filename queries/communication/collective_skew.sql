-- question: Which ranks were late for a collective, and for how long did the others wait?
-- since: 0.1
-- of: several traces
-- params top
-- columns group_key, matched_by, step
-- column place (id): the sequence number or position by which it was matched
-- columns type
-- column ranks_seen (count): number of ranks in this database that have this collective
-- columns wire_ns
-- column wait_ns (ns): waiting: time beyond wire_ns, summed over ranks
-- column max_wait_ns (ns): the longest wait
-- column late_rank (id): the rank that arrived last, judging by the shortest duration
-- column start_skew_ns (ns): last start minus first start, by host clocks: only as accurate as their
--     synchronization
-- doubts: no_communication, one_rank
-- A collective ends everywhere at nearly the same time, so a rank waits for as long as its kernel runs
-- longer than the shortest one: that needs no common clock.
SELECT group_key, matched_by, call_key.step AS step, place, type, ranks_seen, wire_ns, awaited_ns AS wait_ns,
       max(c.wait_ns) AS max_wait_ns, last_rank AS late_rank,
       max(coalesce(base_time_ns, 0) + start_ns) - min(coalesce(base_time_ns, 0) + start_ns) AS start_skew_ns
FROM awaited_collectives AS c
GROUP BY call_key, group_key, matched_by, place, type, ranks_seen, wire_ns, awaited_ns, last_rank
ORDER BY wait_ns DESC, group_key, step, place
LIMIT coalesce(getvariable('top'), 20)
