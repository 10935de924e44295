-- question: How long did launch calls block because the queue was full?
-- param trace (integer, default all): the trace_id to look at
-- param limit (integer, default 1024): how many launches a stream's queue takes before the host must wait (https://hta.readthedocs.io, queue length analysis)
-- column trace_id (id): the trace
-- column device_id (id): the device
-- column stream (id): the stream
-- column launches (count): launch calls for it
-- column at_limit (count): those that began with the queue at the limit or above
-- column call_ns (ns): time of the host in these
-- column usual_call_ns (ns): the median launch call that found room
-- column blocked_ns (ns): call_ns beyond the usual: the device's time, not overhead
-- doubts: no_gpu_ops, unlinked_gpu_ops, starts_before_launch
WITH call AS (
    SELECT trace_id, device_id, stream, launch_id, any_value(launch_start_ns) AS at_ns,
           any_value(launch_end_ns - launch_start_ns) AS call_ns
    FROM gpu_op_link
    WHERE trace_id = coalesce(getvariable('trace'), trace_id) AND NOT is_blocking
    GROUP BY trace_id, device_id, stream, launch_id
),
queue AS (FROM launch_queue()),
met AS (
    SELECT c.*, coalesce(q.depth, 0) >= coalesce(getvariable('limit'), 1024) AS is_full
    FROM call AS c ASOF LEFT JOIN queue AS q
      ON c.trace_id = q.trace_id AND c.device_id = q.device_id AND c.stream = q.stream AND c.at_ns > q.start_ns
),
usual AS (
    SELECT trace_id, device_id, stream, percentile(list(call_ns) FILTER (NOT is_full), 50) AS usual_call_ns FROM met GROUP BY ALL
)
SELECT
    trace_id, device_id, stream, count(*) AS launches, count(*) FILTER (is_full) AS at_limit,
    sum_where(call_ns, is_full) AS call_ns, any_value(usual_call_ns) AS usual_call_ns,
    sum_where(greatest(0, call_ns - coalesce(usual_call_ns, 0)), is_full) AS blocked_ns
FROM met JOIN usual USING (trace_id, device_id, stream)
GROUP BY trace_id, device_id, stream
ORDER BY trace_id, device_id, stream
