-- question: Which copies run between host and device, in pageable or pinned memory, and what issues them?
-- params top
-- columns device_id, copy_kind
-- column host_memory (text): pageable, pinned or managed; NULL: unknown (AMD writes Host), or not the host's
-- columns cpu_op, python_line, count
-- column blocking_count (count): copies whose call returned only when they were done
-- columns bytes, total_ns, bytes_per_s
-- column host_ns (ns): time in the calls that issued them; 0: the calls are not in the trace
-- column gpu_idle_ns (ns): time for which a device waited because its launching thread was in such a call
-- doubts: no_copies, unlinked_gpu_ops, no_stacks
-- A copy from or to pageable memory is staged through a pinned buffer, and blocks the host in most cases:
-- https://docs.nvidia.com/cuda/cuda-runtime-api/api-sync-behavior.html
WITH copy AS (
    SELECT *, lower(nullif(regexp_extract(name, '(?i)\b(Pageable|Pinned|Managed)\b', 1), '')) AS host_memory
    FROM gpu_ops WHERE kind = 'memcpy' AND is_asked(trace_id)
),
call AS (
    SELECT trace_id, event_id AS copy_id, launch_id AS event_id, launch_name AS name,
           launch_end_ns - launch_start_ns AS dur_ns
    FROM copy WHERE launch_id IS NOT NULL
),
-- One call may issue several copies: a graph's launch. Its time counts with the first.
once AS (SELECT DISTINCT trace_id, event_id, name, dur_ns FROM call),
costed_copy AS (
    SELECT c.trace_id, c.copy_id, s.cpu_op, s.python_line,
           CASE WHEN c.copy_id = min(c.copy_id) OVER same THEN c.dur_ns ELSE 0 END AS host_ns,
           CASE WHEN c.copy_id = min(c.copy_id) OVER same THEN s.gpu_idle_ns ELSE 0 END AS gpu_idle_ns
    FROM call AS c JOIN (FROM costed_calls('once')) AS s USING (trace_id, event_id)
    WINDOW same AS (PARTITION BY c.trace_id, c.event_id)
)
SELECT
    c.trace_id, device_id, copy_kind, host_memory, cpu_op, python_line, count(*) AS count,
    count(*) FILTER (c.is_blocking) AS blocking_count, sum(bytes)::BIGINT AS bytes,
    sum(c.dur_ns)::BIGINT AS total_ns,
    sum(bytes) * 1e9 / nullif(sum(c.dur_ns) FILTER (bytes IS NOT NULL), 0) AS bytes_per_s,
    coalesce(sum(a.host_ns), 0)::BIGINT AS host_ns, coalesce(sum(a.gpu_idle_ns), 0)::BIGINT AS gpu_idle_ns
FROM copy AS c LEFT JOIN costed_copy AS a ON c.trace_id = a.trace_id AND c.event_id = a.copy_id
GROUP BY c.trace_id, device_id, copy_kind, host_memory, cpu_op, python_line
ORDER BY c.trace_id, total_ns DESC, device_id, copy_kind, host_memory, cpu_op, python_line
LIMIT coalesce(getvariable('top'), 20)
