-- question: At which clock did each device run while it was busy, and at what power and temperature?
-- since: 0.1
-- params kind
-- columns device_id, kind, name
-- column samples (count): samples of the clock while the device ran an op
-- column clock_mhz (MHz): their median
-- column least_mhz (MHz): the lowest of them
-- column share_of_rated (fraction of the rated clock): clock_mhz over the clock of the peaks; NULL: unknown
-- column power_w (W): the median power meanwhile; NULL: not recorded
-- column temperature_c (degrees Celsius): the median temperature meanwhile; NULL: not recorded
-- doubts: no_counters, no_gpu_ops
-- when: (SELECT count(*) > 0 FROM device_sample)
WITH sampled AS (
    SELECT w.trace_id, w.device_id, w.kind, w.name, w.start_ns, s.measure, s.value
    FROM windows AS w JOIN device_sample AS s ON w.trace_id = s.trace_id AND w.device_id = s.device_id
        AND s.at_ns >= w.start_ns AND s.at_ns < w.end_ns
    WHERE s.is_busy AND is_asked(w.trace_id) AND w.kind = coalesce(getvariable('kind'), w.kind)
),
ran AS (
    SELECT trace_id, device_id, kind, name, start_ns, count(*) FILTER (measure = 'clock') AS samples,
           median(value) FILTER (measure = 'clock') AS clock_mhz,
           min(value) FILTER (measure = 'clock') AS least_mhz,
           median(value) FILTER (measure = 'power') AS power_w,
           median(value) FILTER (measure = 'temperature') AS temperature_c
    FROM sampled GROUP BY ALL
)
SELECT r.trace_id, r.device_id, kind, name, samples, r.clock_mhz, least_mhz,
       r.clock_mhz / p.clock_mhz AS share_of_rated, power_w, temperature_c
FROM ran AS r LEFT JOIN device_peaks AS p ON r.trace_id = p.trace_id AND r.device_id = p.device_id
ORDER BY r.trace_id, r.device_id, start_ns, kind, name
