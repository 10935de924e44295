-- The peak rate for work in a number format. Matrix products have separate units for fp32 (AMD) and fp64.
CREATE OR REPLACE MACRO peak_of(flop_per_s, format, is_matrix) AS CASE
    WHEN is_matrix AND format = 'fp32' THEN coalesce(flop_per_s['fp32_matrix'], flop_per_s['fp32'])
    WHEN is_matrix AND format = 'fp64' THEN coalesce(flop_per_s['fp64_tensor'], flop_per_s['fp64'])
    ELSE flop_per_s[format] END;

-- The format whose peak applies to the work: anything but a matrix product runs on the vector units, in fp32.
CREATE OR REPLACE MACRO roof_format(peak, is_matrix) AS CASE WHEN is_matrix THEN peak ELSE 'fp32' END;

-- The roofs: how long arithmetic and memory would take at the device's peaks, in ns; NULL: peak unknown.
CREATE OR REPLACE MACRO math_roof_ns(flops, flop_per_s, peak, is_matrix) AS
    flops * 1e9 / peak_of(flop_per_s, roof_format(peak, is_matrix), is_matrix);
CREATE OR REPLACE MACRO memory_roof_ns(bytes, memory_bytes_per_s) AS bytes * 1e9 / memory_bytes_per_s;

-- The roof that takes longer, for work of `ns`; latency if both are far below `ns`; NULL: peaks unknown.
CREATE OR REPLACE MACRO roof_bound(math_ns, memory_ns, ns, latency_percent) AS CASE
    WHEN 100 * greatest(math_ns, memory_ns) < latency_percent * ns THEN 'latency'
    WHEN math_ns >= memory_ns THEN 'math' WHEN math_ns < memory_ns THEN 'memory' END;
