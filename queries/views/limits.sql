-- How fast a device could be.

-- The clock of each device while it ran an op: the median of the samples.
CREATE OR REPLACE VIEW busy_clocks AS
SELECT trace_id, device_id, count(*) AS samples, median(value) AS mhz
FROM device_sample WHERE measure = 'clock' AND is_busy GROUP BY trace_id, device_id;
