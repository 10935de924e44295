-- The span in which the GPU ops of each trace were launched and ran: start and end.
SELECT
    trace_id, least(min(start_ns), min(launch_start_ns)) AS start_ns,
    greatest(max(end_ns), max(launch_end_ns)) AS end_ns
FROM gpu_ops GROUP BY trace_id
