-- question: What share of the time was each device busy, over time?
-- params trace
-- param bins (integer, default thresholds().drawn_bins): parts of the GPU-active span, of equal length
-- columns trace_id, device_id, start_ns, end_ns
-- column busy_ns (ns): the union of the device's ops in it
-- column busy_share (fraction of the part): busy_ns over its length
-- doubts: no_gpu_ops
WITH bounds AS (
    SELECT trace_id, device_id, start_ns AS from_ns, end_ns AS to_ns,
           greatest(1, ceil((end_ns - start_ns)
               / coalesce(getvariable('bins'), thresholds().drawn_bins)))::BIGINT AS bin_ns
    FROM windows
    WHERE kind = 'gpu_active' AND end_ns > start_ns AND trace_id = coalesce(getvariable('trace'), trace_id)
),
part AS (
    SELECT trace_id, device_id, bin, from_ns + bin * bin_ns AS start_ns,
           least(from_ns + (bin + 1) * bin_ns, to_ns) AS end_ns
    FROM (SELECT *, unnest(range((to_ns - from_ns - 1) // bin_ns + 1)) AS bin FROM bounds)
),
-- A stretch of work in each part that it touches.
busy AS (
    SELECT trace_id, device_id, bin,
           sum(least(end_ns, from_ns + (bin + 1) * bin_ns) - greatest(start_ns, from_ns + bin * bin_ns)) AS ns
    FROM (
        SELECT t.trace_id, t.device_id, b.from_ns, b.bin_ns, greatest(t.start_ns, b.from_ns) AS start_ns,
               least(t.end_ns, b.to_ns) AS end_ns,
               unnest(range((greatest(t.start_ns, b.from_ns) - b.from_ns) // b.bin_ns,
                   (least(t.end_ns, b.to_ns) - b.from_ns - 1) // b.bin_ns + 1)) AS bin
        FROM gpu_timeline AS t JOIN bounds AS b USING (trace_id, device_id)
        WHERE t.activity <> 'idle' AND t.end_ns > b.from_ns AND t.start_ns < b.to_ns
          AND t.end_ns > t.start_ns
    )
    GROUP BY trace_id, device_id, bin
)
SELECT p.trace_id, p.device_id, p.start_ns, p.end_ns, coalesce(b.ns, 0)::BIGINT AS busy_ns,
       coalesce(b.ns, 0) / (p.end_ns - p.start_ns) AS busy_share
FROM part AS p LEFT JOIN busy AS b USING (trace_id, device_id, bin)
ORDER BY p.trace_id, p.device_id, p.start_ns
