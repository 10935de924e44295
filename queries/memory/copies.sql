-- question: Which copies run between host and device, in pageable or pinned memory, and which calls issue
--     them?
-- since: 0.1
-- params top
-- columns device_id, copy_kind
-- column host_memory (text): pageable, pinned or managed; NULL: unknown (AMD writes Host), or not the host's
-- columns cpu_op, python_line, count
-- column blocking_count (count): number of copies whose call returned only when the copy was done
-- columns bytes, total_ns, bytes_per_s
-- column host_ns (ns): time in the calls that issued the copies; 0: the calls are not in the trace
-- columns gpu_idle_ns
-- doubts: no_copies, unlinked_gpu_ops, no_stacks
-- A copy from or to pageable memory is staged through a pinned buffer, and blocks the host in most cases:
-- https://docs.nvidia.com/cuda/cuda-runtime-api/api-sync-behavior.html
WITH copy AS (
    SELECT * EXCLUDE event_id, event_id AS copy_id, launch_id AS event_id
    FROM gpu_ops WHERE kind = 'memcpy' AND is_asked(trace_id)
),
called AS (
    SELECT c.*, cpu_op, python_id, line_id, gpu_idle_ns, launch_end_ns - launch_start_ns AS call_ns,
           -- One call may issue several copies (a graph launch). Its time counts with the first.
           copy_id = min(copy_id) OVER (PARTITION BY c.trace_id, c.event_id) AS is_first
    FROM copy AS c LEFT JOIN call_site USING (trace_id, event_id)
    LEFT JOIN gpu_waits USING (trace_id, event_id)
)
SELECT trace_id, device_id, copy_kind, host_memory, cpu_op,
       line_of(trace_id, line_id, python_id) AS python_line,
       count(*) AS count, count(*) FILTER (is_blocking) AS blocking_count, sum(bytes)::BIGINT AS bytes,
       sum(dur_ns)::BIGINT AS total_ns,
       sum(bytes) * 1e9 / nullif(sum(dur_ns) FILTER (bytes IS NOT NULL), 0) AS bytes_per_s,
       sum_where(call_ns, is_first) AS host_ns, sum_where(gpu_idle_ns, is_first) AS gpu_idle_ns
FROM called
GROUP BY ALL
ORDER BY trace_id, total_ns DESC, device_id, copy_kind, host_memory, cpu_op, python_line
LIMIT coalesce(getvariable('top'), 20)
