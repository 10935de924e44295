-- fact: A window with the time in which its device computed, communicated, copied and was idle.
-- of: window_timeline_parts
-- The four activities add up to the window, and the classes of idle time to `idle_ns`. An op on a border
-- belongs to the window that it opens; the GPU-active span also has one that begins as it ends.
CREATE TABLE window_partition (
    trace_id INTEGER, -- the trace
    device_id BIGINT, kind VARCHAR, name VARCHAR, start_ns BIGINT, end_ns BIGINT, span_ns BIGINT,
    compute_ns BIGINT, exposed_comm_ns BIGINT, exposed_memcpy_ns BIGINT, idle_ns BIGINT, host_late_ns BIGINT,
    device_ns BIGINT,
    device_in_launch_ns BIGINT, -- the part of device_ns in which the op's launch call was in progress
    unlinked_ns BIGINT, after_last_op_ns BIGINT, busy_ns BIGINT,
    waits_for_host_ns BIGINT,   -- idle time that a ready host would have avoided
    kernels BIGINT, gpu_ops BIGINT,
    linked BIGINT               -- GPU ops with a launch
);
WITH border AS (
    SELECT DISTINCT trace_id, device_id, unnest([start_ns, end_ns + (kind = 'gpu_active')::INTEGER]) AS at_ns
    FROM windows
),
begun AS (
    SELECT b.trace_id, b.device_id, at_ns, count(*) FILTER (kind = 'kernel') AS kernels, count(*) AS gpu_ops,
           count(launch_id) AS linked
    FROM gpu_ops AS g ASOF JOIN border AS b
      ON g.trace_id = b.trace_id AND g.device_id = b.device_id AND g.start_ns >= at_ns
    GROUP BY ALL
),
-- The ops that began before each border.
so_far AS MATERIALIZED (
    SELECT trace_id, device_id, at_ns, coalesce(sum(kernels) OVER before, 0) AS kernels,
           coalesce(sum(gpu_ops) OVER before, 0) AS gpu_ops, coalesce(sum(linked) OVER before, 0) AS linked
    FROM border LEFT JOIN begun USING (trace_id, device_id, at_ns)
    WINDOW before AS (PARTITION BY trace_id, device_id ORDER BY at_ns
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
),
summed AS (
    SELECT trace_id, device_id, kind, name, window_start_ns AS start_ns, window_end_ns AS end_ns,
           window_end_ns - window_start_ns AS span_ns, unnest(partition_of(activity, idle_class, cause, ns))
    FROM window_timeline_parts GROUP BY trace_id, device_id, kind, name, window_start_ns, window_end_ns
)
SELECT p.*, (u.kernels - f.kernels)::BIGINT, (u.gpu_ops - f.gpu_ops)::BIGINT, (u.linked - f.linked)::BIGINT
FROM summed AS p
JOIN so_far AS f ON p.trace_id = f.trace_id AND p.device_id = f.device_id AND p.start_ns = f.at_ns
JOIN so_far AS u ON p.trace_id = u.trace_id AND p.device_id = u.device_id
    AND p.end_ns + (p.kind = 'gpu_active')::INTEGER = u.at_ns
