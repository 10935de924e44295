-- The span in which the GPU ops of each trace were launched and ran: start and end.
SELECT
    g.trace_id, least(min(g.start_ns), min(launch_start_ns)) AS start_ns,
    greatest(max(g.end_ns), max(launch_end_ns)) AS end_ns
FROM gpu_ops AS g LEFT JOIN gpu_op_launch AS l ON g.trace_id = l.trace_id AND g.event_id = l.event_id
GROUP BY g.trace_id
