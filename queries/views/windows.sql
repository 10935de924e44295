-- The waits in a device's timeline, and what the time of a window adds up to.

-- In traces with very many devices: late gaps that the timeline stores as one row each, with their threads.
CREATE OR REPLACE VIEW whole_wait AS
SELECT t.trace_id, t.device_id, t.place, t.start_ns, t.end_ns, t.op_id, t.launch_id, h.thread
FROM gpu_timeline AS t JOIN gpu_ops AS l ON t.trace_id = l.trace_id AND t.op_id = l.event_id
JOIN host_thread AS h ON l.trace_id = h.trace_id AND l.pid = h.pid AND l.tid = h.tid
WHERE t.idle_class = 'host_late' AND t.cause IS NULL;

-- The timeline with a cause for every late gap. It equals gpu_timeline except in traces with very many
-- devices: there, a segment of a thread's time becomes one row for each device that waits for it.
CREATE OR REPLACE VIEW gpu_timeline_by_cause AS
SELECT * FROM gpu_timeline WHERE idle_class IS DISTINCT FROM 'host_late' OR cause IS NOT NULL
UNION ALL
SELECT w.trace_id, w.device_id, w.place, greatest(s.start_ns, w.start_ns), least(s.end_ns, w.end_ns),
       'idle'::device_activity,
       'host_late'::idle_class, host_activity_of(s.activity_code)::VARCHAR::idle_cause, w.op_id, w.launch_id,
       s.event_id
FROM whole_wait AS w JOIN thread_segment AS s ON w.thread = s.thread AND s.end_ns > w.start_ns
    AND s.start_ns < w.end_ns;

-- How long devices waited because their launching thread was in a slice, and in none inside it.
CREATE OR REPLACE VIEW gpu_waits AS
SELECT trace_id, host_event_id AS event_id, sum(end_ns - start_ns)::BIGINT AS gpu_idle_ns
FROM gpu_timeline_by_cause WHERE idle_class = 'host_late' GROUP BY ALL;

-- How long a window's device computed, communicated, copied and was idle: a struct of sums over its parts.
CREATE OR REPLACE MACRO partition_of(activity, idle_class, cause, ns) AS {
    'compute_ns': sum_where(ns, activity = 'compute'),
    'exposed_comm_ns': sum_where(ns, activity = 'communication'),
    'exposed_memcpy_ns': sum_where(ns, activity = 'copy'), 'idle_ns': sum_where(ns, activity = 'idle'),
    'host_late_ns': sum_where(ns, idle_class = 'host_late'),
    'device_ns': sum_where(ns, idle_class = 'device'),
    'device_in_launch_ns': sum_where(ns, idle_class = 'device' AND cause IS NOT NULL),
    'unlinked_ns': sum_where(ns, idle_class = 'unlinked'),
    'after_last_op_ns': sum_where(ns, idle_class = 'after_last_op'),
    'busy_ns': sum_where(ns, activity <> 'idle'),
    'waits_for_host_ns': sum_where(ns,
        idle_class = 'host_late' AND coalesce(cause NOT IN ('held', 'launch_latency'), TRUE)
        OR idle_class = 'device' AND cause IS NOT NULL OR idle_class = 'after_last_op')
};
