-- question: Who waits for whom, and how is that known?
-- since: 0.1
-- params top
-- columns pid, tid
-- column waits_for (text): device op, loader, other thread, lock or timer, other rank or unknown
-- column call (text): the call that waits, or the innermost slice; NULL: none was recorded
-- column place (text): its line, module or operator
-- column known_from (text): named call, times, blocking copy, full queue, held launch, lost graph, long
--     fetch, handover, thread wait, remote call, unrecorded, silence, polling or message
-- column count (count): waits
-- column wait_ns (ns): their length
-- column max_ns (ns): the longest of them
-- column lag_ns (ns): median time from the end of the op (for a full queue: its start) to that of the wait;
--     NULL: the trace does not tell
-- doubts: no_gpu_ops, no_runtime_calls, no_stacks, unlinked_gpu_ops
-- These are stored with the verdict (table host_wait): a database loaded without verdicts has none.
SELECT w.trace_id, w.pid, w.tid, waits_for, name_of(w.trace_id, w.event_id) AS call, place, known_from,
       count(*) AS count, sum(end_ns - start_ns)::BIGINT AS wait_ns, max(end_ns - start_ns) AS max_ns,
       CASE WHEN count(awaited_id) > 0 THEN percentile(list(end_ns - released_ns), 50) END AS lag_ns
FROM host_wait AS w LEFT JOIN call_site USING (trace_id, event_id)
WHERE is_asked(w.trace_id)
GROUP BY ALL
ORDER BY wait_ns DESC, w.pid, w.tid, call, w.trace_id
LIMIT coalesce(getvariable('top'), 20)
