-- question: How much of each window was the GPU computing, communicating, copying, idle, and why idle?
-- params trace, kind
-- columns trace_id, rank, device_id, kind, name, start_ns, end_ns, span_ns, compute_ns, exposed_comm_ns,
--     exposed_memcpy_ns, idle_ns, host_late_ns, device_ns, device_in_launch_ns, unlinked_ns,
--     after_last_op_ns, busy_ns, waits_for_host_ns, kernels
-- column gpu_ops (count): kernels, copies and fills that start in it
-- columns linked
-- doubts: no_gpu_ops, unlinked_gpu_ops, starts_before_launch, absurd_duration
-- The partition is defined in facts/gpu_timeline.sql (the instants) and views/parts.sql
-- (window_partition). An op on a border belongs to the window that it opens; the GPU-active span also has
-- one that begins as it ends.
WITH span AS (SELECT DISTINCT *, end_ns + (kind = 'gpu_active')::INTEGER AS until_ns FROM windows),
border AS (SELECT DISTINCT trace_id, device_id, unnest([start_ns, until_ns]) AS at_ns FROM span),
cell AS (
    SELECT o.trace_id, o.device_id, b.at_ns, count(*) FILTER (o.kind = 'kernel') AS kernels,
           count(*) AS gpu_ops, count(l.event_id) AS linked
    FROM gpu_ops AS o LEFT JOIN gpu_op_launch AS l ON o.trace_id = l.trace_id AND o.event_id = l.event_id
    ASOF JOIN border AS b
      ON o.trace_id = b.trace_id AND o.device_id = b.device_id AND o.start_ns >= b.at_ns
    GROUP BY ALL
),
so_far AS (
    SELECT trace_id, device_id, at_ns, sum(kernels) OVER earlier AS kernels,
           sum(gpu_ops) OVER earlier AS gpu_ops, sum(linked) OVER earlier AS linked
    FROM border LEFT JOIN cell USING (trace_id, device_id, at_ns)
    WINDOW earlier AS (PARTITION BY trace_id, device_id ORDER BY at_ns
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
),
counted AS (
    SELECT s.trace_id, s.device_id, kind, name, start_ns, end_ns,
           (coalesce(u.kernels, 0) - coalesce(f.kernels, 0))::BIGINT AS kernels,
           (coalesce(u.gpu_ops, 0) - coalesce(f.gpu_ops, 0))::BIGINT AS gpu_ops,
           (coalesce(u.linked, 0) - coalesce(f.linked, 0))::BIGINT AS linked
    FROM span AS s
    JOIN so_far AS f ON s.trace_id = f.trace_id AND s.device_id = f.device_id AND s.start_ns = f.at_ns
    JOIN so_far AS u ON s.trace_id = u.trace_id AND s.device_id = u.device_id AND s.until_ns = u.at_ns
),
part AS (
    FROM window_partition
    WHERE trace_id = coalesce(getvariable('trace'), trace_id) AND kind = coalesce(getvariable('kind'), kind)
)
SELECT part.trace_id, rank, part.* EXCLUDE trace_id, kernels, gpu_ops, linked
FROM part JOIN counted USING (trace_id, device_id, kind, name, start_ns, end_ns) JOIN trace USING (trace_id)
ORDER BY trace_id, device_id, kind, start_ns, end_ns
