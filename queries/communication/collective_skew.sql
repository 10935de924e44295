-- question: Which ranks were late for a collective, and for how long did the others wait?
-- of: several traces
-- params top
-- columns group_key, matched_by, step
-- column place (id): that number
-- columns type
-- column ranks_seen (count): ranks with it in this database
-- columns wire_ns
-- column wait_ns (ns): the waiting: the time beyond wire_ns, summed over ranks
-- column max_wait_ns (ns): the longest wait
-- column late_rank (id): the rank that came last, going by the shortest duration
-- column start_skew_ns (ns): last start minus first, by hosts' clocks: as accurate as their synchronization
-- doubts: no_communication, one_rank
-- A collective ends everywhere at nearly the same time, so a rank waits for as long as its kernel takes
-- longer than the shortest one: that needs no common clock.
WITH matched AS (
    SELECT job, group_key, matched_by, CASE WHEN m.sequence IS NULL THEN step END AS step, place, c.type,
           count(DISTINCT trace_id) AS ranks_seen,
           min(c.dur_ns) AS wire_ns, (sum(c.dur_ns) - count(*) * min(c.dur_ns))::BIGINT AS wait_ns,
           max(c.dur_ns) - min(c.dur_ns) AS max_wait_ns, arg_min(rank, c.dur_ns) AS late_rank,
           max(coalesce(base_time_ns, 0) + start_ns) - min(coalesce(base_time_ns, 0)
               + start_ns) AS start_skew_ns
    FROM collective AS c JOIN matched_collective AS m USING (trace_id, event_id) GROUP BY ALL
)
SELECT group_key, matched_by, step, place, type, ranks_seen, wire_ns, wait_ns, max_wait_ns, late_rank,
       start_skew_ns
FROM matched WHERE ranks_seen > 1
ORDER BY wait_ns DESC, group_key, step, place
LIMIT coalesce(getvariable('top'), 20)
