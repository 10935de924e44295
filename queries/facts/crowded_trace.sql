-- fact: A trace with more than thresholds().stepped_devices, whose waits are too many to store one by one.
-- of: gpu_ops
CREATE TABLE _scratch.crowded_trace (
    trace_id INTEGER -- the trace
);
SELECT trace_id FROM gpu_ops GROUP BY trace_id
HAVING count(DISTINCT device_id) > thresholds().stepped_devices
