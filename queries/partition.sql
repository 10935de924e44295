-- question: How much of each window was the GPU computing, communicating, copying, idle, and why idle?
-- param trace (integer, default all): the trace_id to look at
-- column trace_id (id): the trace
-- column device_id (id): the device
-- column kind (text): gpu_active (first GPU op to last), step, or trace (first event to last)
-- column name (text): the window's name
-- column start_ns (ns): where the window begins
-- column end_ns (ns): where it ends
-- column span_ns (ns): its length; the next four add up to it exactly
-- column compute_ns (ns): union of kernels that are not communication
-- column exposed_comm_ns (ns): communication not covered by compute
-- column exposed_memcpy_ns (ns): copies and fills covered by neither
-- column idle_ns (ns): nothing ran; the next four add up to it exactly
-- column host_late_ns (ns): the op that ended the gap was launched after the gap began
-- column device_ns (ns): it had been launched before: dependency, launch latency, event wait
-- column device_in_launch_ns (ns): of device_ns, while the op's launch call was under way: nothing was queued
-- column unlinked_ns (ns): its launch is not in the trace
-- column after_last_op_ns (ns): no op followed
-- column busy_ns (ns): union of all GPU ops: the window less idle
-- column kernels (count): kernels that start in the window
-- column gpu_ops (count): kernels, copies and fills that start in it
-- column linked (count): those of them whose launch is in the trace
-- The partition and the classes of idle time are defined in views/timeline.sql.
WITH op AS (
    SELECT o.trace_id, o.device_id, o.start_ns, count(*) FILTER (o.kind = 'kernel') AS kernels, count(*) AS gpu_ops,
           count(l.event_id) AS linked
    FROM gpu_ops AS o LEFT JOIN gpu_op_link AS l ON o.trace_id = l.trace_id AND o.event_id = l.event_id
    GROUP BY ALL
),
-- How many had started by each start.
so_far AS (
    SELECT trace_id, device_id, start_ns, sum(kernels) OVER by_start AS kernels, sum(gpu_ops) OVER by_start AS gpu_ops,
           sum(linked) OVER by_start AS linked
    FROM op WINDOW by_start AS (PARTITION BY trace_id, device_id ORDER BY start_ns)
),
part AS (
    SELECT
        trace_id, device_id, kind, name, window_start_ns AS start_ns, window_end_ns AS end_ns,
        window_end_ns - window_start_ns AS span_ns,
        coalesce(sum(dur_ns) FILTER (activity = 'compute'), 0)::BIGINT AS compute_ns,
        coalesce(sum(dur_ns) FILTER (activity = 'communication'), 0)::BIGINT AS exposed_comm_ns,
        coalesce(sum(dur_ns) FILTER (activity = 'copy'), 0)::BIGINT AS exposed_memcpy_ns,
        coalesce(sum(dur_ns) FILTER (activity = 'idle'), 0)::BIGINT AS idle_ns,
        coalesce(sum(dur_ns) FILTER (idle_class = 'host_late'), 0)::BIGINT AS host_late_ns,
        coalesce(sum(dur_ns) FILTER (idle_class = 'device'), 0)::BIGINT AS device_ns,
        coalesce(sum(dur_ns) FILTER (idle_class = 'device' AND cause IS NOT NULL), 0)::BIGINT AS device_in_launch_ns,
        coalesce(sum(dur_ns) FILTER (idle_class = 'unlinked'), 0)::BIGINT AS unlinked_ns,
        coalesce(sum(dur_ns) FILTER (idle_class = 'after_last_op'), 0)::BIGINT AS after_last_op_ns,
        coalesce(sum(dur_ns) FILTER (activity <> 'idle'), 0)::BIGINT AS busy_ns
    FROM window_timeline
    WHERE trace_id = coalesce(getvariable('trace'), trace_id)
    GROUP BY ALL
)
SELECT part.*, (coalesce(till.kernels, 0) - coalesce(before.kernels, 0))::BIGINT AS kernels,
       (coalesce(till.gpu_ops, 0) - coalesce(before.gpu_ops, 0))::BIGINT AS gpu_ops,
       (coalesce(till.linked, 0) - coalesce(before.linked, 0))::BIGINT AS linked
FROM part
ASOF LEFT JOIN so_far AS till
  ON part.trace_id = till.trace_id AND part.device_id = till.device_id AND part.end_ns + (part.kind = 'gpu_active')::INTEGER > till.start_ns
ASOF LEFT JOIN so_far AS before
  ON part.trace_id = before.trace_id AND part.device_id = before.device_id AND part.start_ns > before.start_ns
ORDER BY part.trace_id, part.device_id, part.kind, part.start_ns
