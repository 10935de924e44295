-- question: When does each unit of work run, for how long, and what does it do?
-- since: 0.1
-- param top (integer, default 1000): the number of units
-- column level (count): 1 is outermost; units of level 2 and 3 are parts of others
-- column kind (text): step, prefill, decode, mixed, pass, layer or iteration
-- column ordinal (count): its place among the units found with it, from 1
-- columns name
-- column group_id (count): units that do the same work have the same
-- columns start_ns
-- column dur_ns (ns): from its begin to its completion
-- column launches (count): by the host in it
-- columns gpu_ops, gpu_ns
-- column requests (count): of a server's step; NULL of this and the next: unknown
-- column tokens (count): read and generated
-- column is_whole (boolean): the recording does not cut it off
-- column is_odd (boolean): it does other work than most of those found with it
-- column is_cold (boolean): first-call work takes a large part of it
-- doubts: no_gpu_ops, unlinked_gpu_ops, absurd_duration
SELECT trace_id, level, kind, ordinal, name, group_id, begin_ns AS start_ns, dur_ns, launches, gpu_ops,
       gpu_ns, requests, tokens, is_whole, is_odd, is_cold
FROM units WHERE is_asked(trace_id)
ORDER BY trace_id, begin_ns, level, ordinal
LIMIT coalesce(getvariable('top'), 1000)
