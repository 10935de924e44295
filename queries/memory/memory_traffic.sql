-- question: How many bytes were copied, in which direction, and how fast?
-- param trace (integer, default all): the trace_id to look at
-- column trace_id (id): the trace
-- column device_id (id): the device
-- column copy_kind (text): HtoD, DtoH, DtoD, PtoP ... or memset
-- column count (count): copies
-- column bytes (bytes): sum; NULL where the trace does not say
-- column total_ns (ns): sum of their durations
-- column bytes_per_s (bytes per second): bytes over total_ns, of the copies that tell their bytes
-- doubts: no_copies
SELECT
    trace_id, device_id, copy_kind, count(*) AS count, sum(bytes)::BIGINT AS bytes,
    sum(dur_ns)::BIGINT AS total_ns,
    sum(bytes) * 1e9 / nullif(sum(dur_ns) FILTER (bytes IS NOT NULL), 0) AS bytes_per_s
FROM (
    SELECT trace_id, device_id, copy_kind, bytes, dur_ns FROM memcpys
    UNION ALL
    SELECT trace_id, device_id, 'memset', bytes, dur_ns FROM memsets
)
WHERE trace_id = coalesce(getvariable('trace'), trace_id)
GROUP BY ALL
ORDER BY trace_id, device_id, total_ns DESC, copy_kind
