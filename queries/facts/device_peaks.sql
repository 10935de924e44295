-- fact: A device that executed work, with its peaks.
-- of: gpu_ops
-- scope: all
-- A device without a name (as some versions of ROCm list it) is called by its properties: "compute 9.4, 304
-- units, 192 GiB".
-- The first entry of `hardware` whose pattern matches the device's name. A device that the trace does not
-- list (HIP_VISIBLE_DEVICES renumbers devices) takes the name of the listed devices if they all have the same
-- one. In a lake, the entries are those that the reader knows.
CREATE TABLE device_peaks (
    trace_id INTEGER, device_id BIGINT,
    device   VARCHAR, -- its name, or its properties if it has none
    hardware VARCHAR, -- the entry of the table hardware; NULL: none matches
    memory_bytes_per_s DOUBLE, host_link_bytes_per_s DOUBLE, link_bytes_per_s DOUBLE,
    cache_bytes BIGINT, -- the last cache before the memory; NULL: unknown
    clock_mhz DOUBLE,   -- the clock at which the peaks are stated; NULL: unknown
    flop_per_s MAP(VARCHAR, DOUBLE), source VARCHAR
);
WITH used AS (SELECT DISTINCT trace_id, device_id FROM gpu_ops),
listed AS (
    SELECT trace_id, device_id, coalesce(
               nullif(name, ''), 'compute ' || compute_capability || ', ' || sm_count || ' units, '
               || round(memory_bytes / (1 << 30))::BIGINT || ' GiB', name) AS name
    FROM device
),
alike AS (SELECT trace_id, any_value(name) AS name FROM listed GROUP BY trace_id
    HAVING count(DISTINCT name) = 1)
SELECT u.trace_id, u.device_id, coalesce(d.name, a.name) AS device, h.name AS hardware, h.memory_bytes_per_s,
       h.host_link_bytes_per_s, h.link_bytes_per_s, h.cache_bytes, h.clock_mhz, h.flop_per_s, h.source
FROM used AS u LEFT JOIN listed AS d ON u.trace_id = d.trace_id AND u.device_id = d.device_id
LEFT JOIN alike AS a ON u.trace_id = a.trace_id
LEFT JOIN hardware AS h ON regexp_matches(coalesce(d.name, a.name), h.pattern)
QUALIFY row_number() OVER (PARTITION BY u.trace_id, u.device_id ORDER BY h.place) = 1
