-- question: Which GPU ops of different ranks belong to one collective, or to a send and its receive?
-- since: 0.1
-- of: several traces
-- column call (id): number of the collective
-- columns trace_id, rank, event_id, type
-- column direction (text): send or receive; NULL: a collective
-- columns group_key, matched_by, step, group_size, message_bytes, start_ns, dur_ns, wire_ns
-- column is_last (boolean): whether this rank arrived last
-- doubts: no_communication, one_rank
-- As in collective_skew: a collective ends for all ranks once the last rank has arrived and the data is
-- transferred.
SELECT dense_rank() OVER (ORDER BY call_key) AS call, trace_id, rank, event_id, type, direction, group_key,
       matched_by, step, group_size, message_bytes, start_ns, dur_ns, wire_ns, is_last
FROM awaited_collectives
ORDER BY call, rank, trace_id, start_ns
