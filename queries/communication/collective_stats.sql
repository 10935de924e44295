-- question: Which collectives ran, how large were they, and what bandwidth did they reach?
-- since: 0.1
-- columns device_id, rank, type, group_name, group_size, dtype, message_bytes
-- column algorithm (text): RING, TREE, NVLS ... by the kernel's name
-- column protocol (text): LL, LL128 or SIMPLE, by the kernel's name
-- columns count
-- column total_ns (ns): sum of kernel durations, waiting for other ranks included
-- columns min_ns, exposed_ns
-- column wait_ns (ns): the calls' time beyond the shortest, probably waiting: a lower bound; NULL: unknown
-- column algorithm_gb_per_s (10^9 bytes per second): message_bytes of all calls over total_ns
-- column bus_gb_per_s (10^9 bytes per second): algorithm_gb_per_s times nccl-tests' factor: the link's
--     bandwidth
-- column best_bus_gb_per_s (10^9 bytes per second): bus_gb_per_s of the shortest call
-- doubts: no_gpu_ops, no_communication, unlinked_gpu_ops, absurd_duration
-- Bandwidths: https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
SELECT
    c.trace_id, c.device_id, t.rank, type, group_name, group_size, dtype, message_bytes, algorithm, protocol,
    count(*) AS count, sum(dur_ns)::BIGINT AS total_ns, min(dur_ns) AS min_ns,
    sum(exposed_ns)::BIGINT AS exposed_ns, sum(wait_ns)::BIGINT AS wait_ns,
    sum(message_bytes) / nullif(sum(dur_ns), 0) AS algorithm_gb_per_s,
    sum(message_bytes) / nullif(sum(dur_ns), 0) * bus_factor(type, nullif(group_size, 0)) AS bus_gb_per_s,
    message_bytes / nullif(min(dur_ns), 0) * bus_factor(type, nullif(group_size, 0)) AS best_bus_gb_per_s
FROM collective AS c JOIN trace AS t USING (trace_id) WHERE is_asked(c.trace_id)
GROUP BY c.trace_id, c.device_id, t.rank, type, group_name, group_size, dtype, message_bytes, algorithm,
    protocol
ORDER BY c.trace_id, c.device_id, total_ns DESC, type, message_bytes
