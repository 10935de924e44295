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
WITH so_far AS (
    SELECT trace_id, o.device_id, o.start_ns, count(*) OVER up_to AS gpu_ops,
           count(*) FILTER (o.kind = 'kernel') OVER up_to AS kernels, count(l.event_id) OVER up_to AS linked
    FROM gpu_ops AS o LEFT JOIN gpu_op_launch AS l USING (trace_id, event_id)
    WINDOW up_to AS (PARTITION BY trace_id, o.device_id ORDER BY o.start_ns)
),
part AS (
    FROM window_partition
    WHERE trace_id = coalesce(getvariable('trace'), trace_id) AND kind = coalesce(getvariable('kind'), kind)
)
SELECT p.trace_id, rank, p.* EXCLUDE trace_id,
       coalesce(u.kernels, 0) - coalesce(f.kernels, 0) AS kernels,
       coalesce(u.gpu_ops, 0) - coalesce(f.gpu_ops, 0) AS gpu_ops,
       coalesce(u.linked, 0) - coalesce(f.linked, 0) AS linked
FROM part AS p JOIN trace ON p.trace_id = trace.trace_id
ASOF LEFT JOIN so_far AS f
  ON p.trace_id = f.trace_id AND p.device_id = f.device_id AND p.start_ns > f.start_ns
ASOF LEFT JOIN so_far AS u
  ON p.trace_id = u.trace_id AND p.device_id = u.device_id
    AND p.end_ns + (p.kind = 'gpu_active')::INTEGER > u.start_ns
ORDER BY p.trace_id, p.device_id, p.kind, p.start_ns, p.end_ns
