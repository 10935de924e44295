-- question: Which collectives probably waited for other ranks, judging by one rank?
-- since: 0.1
-- params top
-- columns device_id, event_id, step, type, group_name, message_bytes, start_ns, dur_ns
-- column wire_ns (ns): the shortest call of this type, group and size, or the time of its data on the slowest
--     link: wire time, and a little waiting
-- column wait_ns (ns): dur_ns minus wire_ns: probably waiting for the last rank, or for busy links and SMs
-- columns exposed_ns
-- column calls (count): calls of the same type, group and size
-- doubts: no_gpu_ops, no_communication, unlinked_gpu_ops, absurd_duration
-- With the traces of several ranks, collective_skew measures the wait.
SELECT c.trace_id, c.device_id, c.event_id,
       CASE WHEN launch_start_ns < s.end_ns THEN s.step END AS step, type,
       group_name, message_bytes, c.start_ns, c.dur_ns, c.dur_ns - wait_ns AS wire_ns, wait_ns, exposed_ns,
       alike_count AS calls
FROM collective AS c
ASOF LEFT JOIN steps AS s ON c.trace_id = s.trace_id AND launch_start_ns >= s.start_ns
WHERE wait_ns > 0 AND is_asked(c.trace_id)
ORDER BY wait_ns DESC, c.trace_id, c.start_ns, c.event_id
LIMIT coalesce(getvariable('top'), 20)
