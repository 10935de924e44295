-- question: How long did launch calls block because the queue was full?
-- params trace, limit
-- columns trace_id, device_id, stream, launches
-- column at_limit (count): launch calls that began with the queue at the limit or above
-- column call_ns (ns): host time in the at_limit calls
-- column usual_call_ns (ns): the median launch call that found room
-- column blocked_ns (ns): call_ns beyond the usual: waiting for the device, not host overhead
-- doubts: no_gpu_ops, unlinked_gpu_ops, starts_before_launch
WITH call AS (SELECT *, end_ns - start_ns AS call_ns FROM queued_calls()),
found AS (FROM full_queues('call')),
met AS (
    SELECT c.*, coalesce(met >= coalesce(getvariable('limit'), full_depth), FALSE) AS is_full
    FROM call AS c JOIN found USING (trace_id, device_id, stream)
),
usual AS (
    SELECT trace_id, device_id, stream, percentile(list(call_ns) FILTER (NOT is_full), 50) AS usual_call_ns
    FROM met GROUP BY ALL
)
SELECT
    trace_id, device_id, stream, count(*) AS launches, count(*) FILTER (is_full) AS at_limit,
    sum_where(call_ns, is_full) AS call_ns, any_value(usual_call_ns) AS usual_call_ns,
    sum_where(greatest(0, call_ns - coalesce(usual_call_ns, 0)), is_full) AS blocked_ns
FROM met JOIN usual USING (trace_id, device_id, stream)
GROUP BY trace_id, device_id, stream
ORDER BY trace_id, device_id, stream
