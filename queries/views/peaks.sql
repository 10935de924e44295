-- Peaks of devices, the clocks at which they ran, and the roofs that peaks make for an operator's work.

-- The peak rate for work in a number format: anything but a matrix product runs on the vector units, in fp32.
-- Matrix products have separate units for fp32 (AMD) and fp64. NULL: unknown.
CREATE OR REPLACE MACRO peak_of(flop_per_s, format, is_matrix) AS CASE
    WHEN is_matrix IS NOT TRUE THEN flop_per_s['fp32']
    WHEN format = 'fp32' THEN coalesce(flop_per_s['fp32_matrix'], flop_per_s['fp32'])
    WHEN format = 'fp64' THEN coalesce(flop_per_s['fp64_tensor'], flop_per_s['fp64'])
    ELSE flop_per_s[format] END;

-- The roof that takes longer, for work of `ns`; latency if both are far below `ns`; NULL: peaks unknown.
CREATE OR REPLACE MACRO roof_bound(math_ns, memory_ns, ns, latency_percent) AS CASE
    WHEN 100 * greatest(math_ns, memory_ns) < latency_percent * ns THEN 'latency'
    WHEN math_ns >= memory_ns THEN 'math' WHEN math_ns < memory_ns THEN 'memory' END;

-- The clock of each device while it ran an op: the median of the samples.
CREATE OR REPLACE VIEW busy_clocks AS
SELECT trace_id, device_id, count(*) AS samples, median(value) AS mhz
FROM device_sample WHERE measure = 'clock' AND is_busy GROUP BY trace_id, device_id;
