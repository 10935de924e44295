-- question: What bandwidth do the links carry, by type and size of collective and by group, without waiting?
-- since: 0.1
-- of: several traces
-- columns type, message_bytes, group_size, group_key
-- column ranks (list): the group's ranks in this database
-- column sender (id): for a send with its receive, the sending rank; NULL: a collective
-- columns count
-- column wire_ns (ns): median wire time: the duration on the rank that arrived last
-- column wait_ns (ns): total waiting time of all ranks in them
-- column bus_gb_per_s (10^9 bytes per second): message_bytes over wire_ns times nccl-tests' factor for type
--     and group size: compare this with the link's bandwidth; NULL: the group's size is not known
-- column alike (count): other groups that exchange messages of this type and size among as many ranks
-- column others_wire_ns (ns): the median of the other groups' wire_ns
-- column slower (ratio): wire_ns over others_wire_ns: a slow link takes several times as long
-- doubts: no_communication, one_rank
-- Bandwidths: https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
WITH call AS (
    SELECT any_value(c.job) AS job, any_value(c.type) AS type, any_value(c.group_key) AS group_key,
           list(DISTINCT c.rank) AS members, any_value(c.rank) FILTER (direction = 'send') AS sender,
           max(message_bytes) AS message_bytes,
           any_value(wire_ns) AS wire_ns, any_value(awaited_ns) AS awaited_ns,
           coalesce(max(group_size), CASE WHEN count(direction) > 0 THEN 2
               WHEN max(ranks_seen) = max(world_size) THEN max(ranks_seen) END) AS group_size
    FROM awaited_collectives AS c JOIN trace USING (trace_id)
    GROUP BY call_key HAVING max(message_bytes) IS NOT NULL AND any_value(wire_ns) > 0
),
grouped AS (
    SELECT job, type, message_bytes, group_size, group_key,
           list_sort(list_distinct(flatten(list(members)))) AS ranks, any_value(sender) AS sender,
           count(*) AS count,
           percentile(list(wire_ns), 50) AS wire_ns, sum(awaited_ns)::BIGINT AS wait_ns
    FROM call GROUP BY job, type, message_bytes, group_size, group_key
),
compared AS (
    SELECT a.job, a.group_key, a.type, a.message_bytes, a.group_size, count(*) AS alike,
           percentile(list(b.wire_ns), 50) AS others_wire_ns
    FROM grouped AS a JOIN grouped AS b
      ON a.job = b.job AND a.type = b.type AND a.message_bytes = b.message_bytes
     AND a.group_size IS NOT DISTINCT FROM b.group_size AND a.group_key <> b.group_key
    GROUP BY ALL
)
SELECT g.type, g.message_bytes, g.group_size, g.group_key, ranks, sender, count, wire_ns, wait_ns,
       g.message_bytes / wire_ns * bus_factor(g.type, nullif(g.group_size, 0)) AS bus_gb_per_s,
       coalesce(alike, 0) AS alike, others_wire_ns, wire_ns / others_wire_ns AS slower
FROM grouped AS g
LEFT JOIN compared AS c
  ON g.job = c.job AND g.group_key = c.group_key AND g.type = c.type AND g.message_bytes = c.message_bytes
 AND g.group_size IS NOT DISTINCT FROM c.group_size
ORDER BY g.type, g.message_bytes DESC, g.group_key, g.group_size
