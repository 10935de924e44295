-- How fast a device could do its work: sums of the limits of its ops.

-- The clock of each device while it ran an op: the median of the samples.
CREATE OR REPLACE VIEW busy_clocks AS
SELECT trace_id, device_id, count(*) AS samples, median(value) AS mhz
FROM device_sample WHERE measure = 'clock' AND is_busy GROUP BY trace_id, device_id;

-- The limits of the work that each device begins in spans of time: rows of a `key` with the trace's id, and
-- `start_ns` and `end_ns`. A stream runs its ops one after another, and all streams share the memory and the
-- units for products. `floor_ns` is for the work as it is launched; `must_ns` is what no fusion removes: the
-- products, at the clock that the device had, the collectives, and where nothing is trained, reading the
-- weights and caches, as far as no cache keeps them.
-- Ops of unknown work count as 0 long. NULL: no peak of the device is known.
CREATE OR REPLACE MACRO floors(spans) AS TABLE
WITH so_far AS MATERIALIZED (
    SELECT g.trace_id, g.device_id, g.stream, g.start_ns,
           if(g.kind = 'kernel' AND g.class <> 'communication', g.dur_ns, 0) AS own_ns,
           sum(own_ns) OVER until AS kernel_ns,
           sum(if(is_exact IS NULL, 0, own_ns)) OVER until AS modelled_ns,
           sum(if(is_exact, own_ns, 0)) OVER until AS exact_ns,
           sum(coalesce(least_ns, 0)) OVER until AS least_ns,
           sum(if(least_ns IS NULL, 0, least(far_ns, g.dur_ns))) OVER until AS memory_ns,
           sum(if(l.source = 'collective', least_ns, 0)) OVER until AS link_ns,
           sum(if(is_matrix AND least_ns IS NOT NULL, least(math_ns, g.dur_ns), 0)) OVER until AS math_ns,
           sum(if(is_matrix, flops, 0)) OVER until AS flops,
           sum(coalesce(weight_bytes, 0)) OVER until AS weight_bytes
    FROM gpu_ops AS g LEFT JOIN op_limit AS l USING (trace_id, event_id)
    WINDOW until AS (PARTITION BY g.trace_id, g.device_id, g.stream ORDER BY g.start_ns)
),
span AS MATERIALIZED (FROM query_table(spans)),
edge AS (
    SELECT key, device_id, stream, sign, if(sign < 0, span.start_ns, span.end_ns) AS at_ns
    FROM span JOIN (SELECT DISTINCT trace_id, device_id, stream FROM so_far) AS o ON key.trace_id = o.trace_id
    CROSS JOIN (VALUES (-1), (1)) AS side(sign)
),
of_stream AS (
    SELECT key, e.device_id, sum(sign * COLUMNS('^(kernel|modelled|exact|least|memory|link|math)_ns$')),
           sum(sign * flops) AS flops, sum(sign * weight_bytes) AS weight_bytes
    FROM edge AS e ASOF JOIN so_far AS o
      ON key.trace_id = o.trace_id AND e.device_id = o.device_id AND e.stream = o.stream
        AND at_ns > o.start_ns
    GROUP BY key, e.device_id, e.stream
),
of_device AS (
    SELECT key, device_id, max(least_ns) AS longest_ns,
           sum(COLUMNS('^(kernel|modelled|exact|memory|link|math)_ns$')), sum(flops) AS flops,
           if(key.trace_id IN (FROM learning_traces), 0, sum(weight_bytes)) AS weight_bytes
    FROM of_stream GROUP BY key, device_id
)
SELECT key, d.device_id, end_ns - start_ns AS span_ns, kernel_ns::BIGINT AS kernel_ns,
       modelled_ns::BIGINT AS modelled_ns, exact_ns::BIGINT AS exact_ns, flops, weight_bytes, math_ns,
       math_ns / least(1, coalesce(mhz / clock_mhz, 1)) AS at_clock_ns,
       weight_bytes * 1e9 / memory_bytes_per_s AS weights_ns,
       if(hardware IS NULL, NULL, greatest(longest_ns, memory_ns, at_clock_ns, link_ns))::BIGINT AS floor_ns,
       if(hardware IS NULL, NULL, greatest(at_clock_ns, link_ns,
           (weight_bytes - coalesce(cache_bytes, thresholds().cached_bytes)) * 1e9
               / memory_bytes_per_s))::BIGINT AS must_ns
FROM of_device AS d JOIN span USING (key)
JOIN device_peaks AS p ON key.trace_id = p.trace_id AND d.device_id = p.device_id
LEFT JOIN busy_clocks AS c ON key.trace_id = c.trace_id AND d.device_id = c.device_id
WHERE kernel_ns > 0;
