-- question: How deep was each stream's launch queue, and how long was it empty or full?
-- params trace, limit
-- columns trace_id, device_id, stream
-- column span_ns (ns): from its first launch to its last op's start; the shares are fractions of this
-- column mean_depth (count): time-weighted mean depth over span_ns
-- column p50_depth (count): for half of span_ns, the queue was at most this deep
-- column p90_depth (count): for nine tenths of span_ns, the queue was at most this deep
-- column max_depth (count): the largest depth
-- column empty_ns (ns): time with nothing queued on this stream: not needed, or the host was behind
-- column share_empty (fraction of span_ns): empty_ns over it
-- column full_ns (ns): time at the limit or above: the device was behind
-- column share_full (fraction of span_ns): full_ns over it
-- doubts: no_gpu_ops, unlinked_gpu_ops, starts_before_launch
WITH call AS (FROM queued_calls()),
found AS (FROM full_queues('call')),
at_depth AS (
    SELECT trace_id, device_id, stream, depth, sum(end_ns - start_ns) AS ns FROM launch_queue() GROUP BY ALL
),
ranked AS (
    SELECT *, sum(ns) OVER (PARTITION BY trace_id, device_id, stream ORDER BY depth) AS up_to,
           sum(ns) OVER (PARTITION BY trace_id, device_id, stream) AS total
    FROM at_depth
)
SELECT
    trace_id, device_id, stream, any_value(total)::BIGINT AS span_ns,
    sum(depth * ns) / nullif(any_value(total), 0) AS mean_depth,
    min(depth) FILTER (2 * up_to >= total) AS p50_depth,
    min(depth) FILTER (10 * up_to >= 9 * total) AS p90_depth, max(depth) AS max_depth,
    sum_where(ns, depth = 0) AS empty_ns,
    coalesce(sum(ns) FILTER (depth = 0), 0) / nullif(any_value(total), 0) AS share_empty,
    sum_where(ns, depth >= coalesce(getvariable('limit'), full_depth)) AS full_ns,
    coalesce(sum(ns) FILTER (depth >= coalesce(getvariable('limit'), full_depth)), 0)
        / nullif(any_value(total), 0) AS share_full
FROM ranked LEFT JOIN found USING (trace_id, device_id, stream)
GROUP BY trace_id, device_id, stream
ORDER BY trace_id, device_id, stream
