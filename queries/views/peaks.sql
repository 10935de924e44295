-- Each device that ran anything, with the peaks known for it: those of the first entry of `hardware` whose
-- pattern its name matches; NULL where none does. A device that the trace does not list (renumbered, as
-- HIP_VISIBLE_DEVICES does) is what all listed ones are, where they are of one kind.
CREATE OR REPLACE VIEW device_peaks AS
WITH used AS (SELECT DISTINCT trace_id, device_id FROM gpu_ops),
alike AS (SELECT trace_id, any_value(name) AS name FROM device GROUP BY trace_id
    HAVING count(DISTINCT name) = 1),
named AS (
    SELECT u.trace_id, u.device_id, coalesce(d.name, a.name) AS device
    FROM used AS u LEFT JOIN device AS d ON u.trace_id = d.trace_id AND u.device_id = d.device_id
    LEFT JOIN alike AS a ON u.trace_id = a.trace_id
)
SELECT n.trace_id, n.device_id, n.device, h.name AS hardware, h.memory_bytes_per_s, h.flop_per_s, h.source
FROM named AS n LEFT JOIN hardware AS h ON regexp_matches(n.device, h.pattern)
QUALIFY row_number() OVER (PARTITION BY n.trace_id, n.device_id ORDER BY h.place) = 1;

-- The rate that work in a number format is held against: matrix products have units of their own for fp32
-- (AMD) and fp64.
CREATE OR REPLACE MACRO peak_of(flop_per_s, format, is_matrix) AS CASE
    WHEN is_matrix AND format = 'fp32' THEN coalesce(flop_per_s['fp32_matrix'], flop_per_s['fp32'])
    WHEN is_matrix AND format = 'fp64' THEN coalesce(flop_per_s['fp64_tensor'], flop_per_s['fp64'])
    ELSE flop_per_s[format] END;

-- The format whose peak work is held against: what is not a matrix product runs on the vector units, in fp32.
CREATE OR REPLACE MACRO roof_format(peak, is_matrix) AS CASE WHEN is_matrix THEN peak ELSE 'fp32' END;

-- The roofs: how long arithmetic and memory would take at the device's peaks, in ns; NULL: peak unknown.
CREATE OR REPLACE MACRO math_roof_ns(flops, flop_per_s, peak, is_matrix) AS
    flops * 1e9 / peak_of(flop_per_s, roof_format(peak, is_matrix), is_matrix);
CREATE OR REPLACE MACRO memory_roof_ns(bytes, memory_bytes_per_s) AS bytes * 1e9 / memory_bytes_per_s;

-- Which roof takes longer, of work that took `ns`; latency where both are far below it; NULL: peaks unknown.
CREATE OR REPLACE MACRO roof_bound(math_ns, memory_ns, ns, latency_percent) AS CASE
    WHEN 100 * greatest(math_ns, memory_ns) < latency_percent * ns THEN 'latency'
    WHEN math_ns >= memory_ns THEN 'math' WHEN math_ns < memory_ns THEN 'memory' END;
