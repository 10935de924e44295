-- question: How much of each window was the GPU computing, communicating, copying, idle, and why idle?
-- param trace (integer, default all): the trace_id to look at
-- param kind (text, default all): gpu_active, step or trace: only windows of this kind
-- column trace_id (id): the trace
-- column rank (id): its rank in the distributed job, NULL where the trace does not say
-- column device_id (id): the device
-- column kind (text): gpu_active (first GPU op to last), step, or trace (first host
--     slice or GPU op to last)
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
-- doubts: no_gpu_ops, unlinked_gpu_ops, starts_before_launch, absurd_duration
-- The partition is defined in views/timeline.sql (the instants) and views/parts.sql (window_partition).
WITH op AS (
    SELECT o.trace_id, o.device_id, o.start_ns, count(*) FILTER (o.kind = 'kernel') AS kernels,
           count(*) AS gpu_ops,
           count(l.event_id) AS linked
    FROM gpu_ops AS o LEFT JOIN gpu_op_launch AS l ON o.trace_id = l.trace_id AND o.event_id = l.event_id
    GROUP BY ALL
),
-- Ops and the borders of windows in one order: an op on a border belongs to the window that it opens.
point AS (
    SELECT trace_id, device_id, start_ns AS at_ns, 1 AS turn, kernels, gpu_ops, linked, NULL AS kind,
           NULL AS name,
           NULL::BIGINT AS start_ns, NULL::BIGINT AS end_ns
    FROM op
    UNION ALL
    SELECT trace_id, device_id, unnest([start_ns, end_ns]),
           unnest([0, CASE kind WHEN 'gpu_active' THEN 2 ELSE 0 END]),
           0, 0, 0, kind, name, start_ns, end_ns
    FROM windows
),
so_far AS (
    SELECT * REPLACE (sum(kernels) OVER in_order AS kernels, sum(gpu_ops) OVER in_order AS gpu_ops,
        sum(linked) OVER in_order AS linked)
    FROM point
    WINDOW in_order AS (PARTITION BY trace_id, device_id ORDER BY at_ns, turn ROWS UNBOUNDED PRECEDING)
),
counted AS (
    SELECT trace_id, device_id, kind, name, start_ns, end_ns,
           (max(kernels) - min(kernels))::BIGINT AS kernels,
           (max(gpu_ops) - min(gpu_ops))::BIGINT AS gpu_ops, (max(linked) - min(linked))::BIGINT AS linked
    FROM so_far WHERE kind IS NOT NULL GROUP BY trace_id, device_id, kind, name, start_ns, end_ns
),
part AS (
    FROM window_partition
    WHERE trace_id = coalesce(getvariable('trace'), trace_id) AND kind = coalesce(getvariable('kind'), kind)
)
SELECT part.trace_id, rank, part.* EXCLUDE trace_id, kernels, gpu_ops, linked
FROM part JOIN counted USING (trace_id, device_id, kind, name, start_ns, end_ns) JOIN trace USING (trace_id)
ORDER BY trace_id, device_id, kind, start_ns, end_ns
