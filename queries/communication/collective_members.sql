-- question: Which GPU ops of different ranks are one collective, or a send and its receive?
-- column call (id): the collective: its number among all
-- column trace_id (id): a rank's trace
-- column rank (id): the rank
-- column event_id (id): the rank's kernel
-- column type (text): allreduce, allgather ...; sendrecv: a send and its receive
-- column direction (text): send or receive; NULL: a collective
-- column group_key (text): as in collective_skew
-- column matched_by (text): as in collective_skew
-- column step (id): the profiler step in which the rank launched it
-- column group_size (count): ranks that take part, in this database or not; NULL: the trace does not tell
-- column message_bytes (bytes): the larger of what a rank sends and what it receives; NULL: the trace does
--     not tell
-- column start_ns (ns): when the kernel starts, by the clock of the rank's trace
-- column dur_ns (ns): how long it takes
-- column wire_ns (ns): its duration on the rank that came last: time on the wire
-- column is_last (boolean): whether this is that rank
-- doubts: no_communication, one_rank
-- As in collective_skew: a collective ends for all ranks when the last one has come and the bytes are
-- through.
SELECT dense_rank() OVER (ORDER BY call_key) AS call, trace_id, rank, event_id, type, direction, group_key,
       matched_by, step, group_size, message_bytes, start_ns, dur_ns, wire_ns, is_last
FROM awaited_collectives()
ORDER BY call, rank, trace_id, start_ns
