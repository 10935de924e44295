-- fact: A thread, or a stream of a device, with the time from its first slice to its last.
-- needs: slice_label
CREATE TABLE _scratch.slice_thread AS
SELECT trace_id, pid, tid, min(start_ns) AS start_ns, max(end_ns) AS end_ns,
       bool_or(kind NOT IN ('kernel', 'memcpy', 'memset', 'host_function')) AS is_host,
       bool_or(kind IN ('cpu_op', 'python')) AS has_code
FROM slices
WHERE kind IN ('annotation', 'python', 'cpu_op', 'runtime', 'driver', 'kernel', 'memcpy', 'memset',
    'host_function')
GROUP BY ALL
