-- question: How deep was each stream's launch queue, and how long was it empty, or full and blocking?
-- since: 0.1
-- param limit (integer, default full_depth): queue depth at which a stream's queue is full and the host must
--     wait; full_depth: estimated per stream from the depth at which its launch calls repeatedly return,
--     counting from 512 launches on
-- columns device_id, stream
-- column span_ns (ns): from its first launch to its last op's start; the shares are fractions of this
-- column mean_depth (count): time-weighted mean depth over span_ns
-- column p50_depth (count): median depth over span_ns
-- column p90_depth (count): 90th percentile of the depth over span_ns
-- column max_depth (count): maximum depth
-- column empty_ns (ns): time with an empty queue: the stream was not needed, or the host was behind
-- column share_empty (fraction of span_ns): empty_ns over span_ns
-- column full_ns (ns): time with a full queue: the device was behind
-- column share_full (fraction of span_ns): full_ns over span_ns
-- column launches (count): number of launch calls that do not wait for their own op
-- column at_limit (count): number of launch calls that began with a full queue
-- column call_ns (ns): host time in these at_limit calls
-- column usual_call_ns (ns): median launch call with room in the queue
-- column blocked_ns (ns): call_ns beyond the usual: waiting for the device, not host overhead
-- doubts: no_gpu_ops, unlinked_gpu_ops, starts_before_launch
WITH call AS (
    SELECT *, end_ns - start_ns AS call_ns, left_waiting >= thresholds().queue_depth AS is_deep,
           is_deep AND end_ns - start_ns >= thresholds().one_range_ratio * median(end_ns - start_ns)
               FILTER (NOT is_deep) OVER (PARTITION BY trace_id) AS is_long
    FROM queued_calls
),
-- When a queue is full, long calls return with the same number of launches queued each time, or nearly: the
-- full depth follows from them. It may have been deeper before, since some launches take less of it. NULL:
-- the queue is never full.
queue_limit AS (
    SELECT trace_id, device_id, stream, coalesce(getvariable('limit'), full_depth) AS full_depth FROM (
        SELECT trace_id, device_id, stream,
               CASE WHEN count(*) FILTER (is_long AND abs(left_waiting - usual_depth) <= slack)
                   >= greatest(thresholds().full_calls, thresholds().full_share * count(*) FILTER (is_long))
                   THEN any_value(usual_depth - slack) END AS full_depth
        FROM (
            SELECT *, greatest(thresholds().full_slack, thresholds().full_spread * usual_depth) AS slack
            FROM (
                SELECT *, mode(left_waiting ORDER BY left_waiting) FILTER (is_long)
                    OVER (PARTITION BY trace_id, device_id, stream) AS usual_depth
                FROM call
            )
        )
        GROUP BY trace_id, device_id, stream)
),
met AS (
    SELECT c.*, coalesce(met >= full_depth, FALSE) AS is_full
    FROM call AS c JOIN queue_limit USING (trace_id, device_id, stream)
),
usual AS (
    SELECT trace_id, device_id, stream, percentile(list(call_ns) FILTER (NOT is_full), 50) AS usual_call_ns
    FROM met GROUP BY ALL
),
blocked AS (
    SELECT trace_id, device_id, stream, count(*) AS launches, count(*) FILTER (is_full) AS at_limit,
           sum_where(call_ns, is_full) AS call_ns, usual_call_ns,
           sum_where(greatest(0, m.call_ns - coalesce(usual_call_ns, 0)), is_full) AS blocked_ns
    FROM met AS m JOIN usual USING (trace_id, device_id, stream) GROUP BY ALL
),
waiting AS (FROM queued_launches WHERE is_queued),
ranked AS (
    SELECT key.trace_id AS trace_id, key.device_id AS device_id, key.stream AS stream, depth,
           sum(end_ns - start_ns) AS ns, sum(sum(end_ns - start_ns)) OVER (queue ORDER BY depth) AS up_to,
           sum(sum(end_ns - start_ns)) OVER queue AS total
    FROM interval_depth('waiting') GROUP BY key, depth WINDOW queue AS (PARTITION BY key)
),
depths AS (
    SELECT trace_id, device_id, stream, any_value(total)::BIGINT AS span_ns,
           sum(depth * ns) / nullif(any_value(total), 0) AS mean_depth,
           min(depth) FILTER (2 * up_to >= total) AS p50_depth,
           min(depth) FILTER (10 * up_to >= 9 * total) AS p90_depth, max(depth) AS max_depth,
           sum_where(ns, depth = 0) AS empty_ns, empty_ns / nullif(any_value(total), 0) AS share_empty,
           sum_where(ns, depth >= full_depth) AS full_ns, full_ns / nullif(any_value(total), 0) AS share_full
    FROM ranked LEFT JOIN queue_limit USING (trace_id, device_id, stream) GROUP BY ALL
)
FROM depths FULL JOIN blocked USING (trace_id, device_id, stream)
ORDER BY trace_id, device_id, stream
