-- The queue between host and device: ops that the host has launched and the device has not started, by
-- stream, as stretches of one depth. An op that starts before its launch (clocks differ) was in no queue.
CREATE OR REPLACE MACRO launch_queue() AS TABLE
WITH waiting AS (
    SELECT {'trace_id': trace_id, 'device_id': device_id, 'stream': stream} AS key, launch_start_ns AS start_ns,
           launch_start_ns + launch_delay_ns AS end_ns
    FROM gpu_op_link
    WHERE launch_delay_ns >= 0 AND trace_id = coalesce(getvariable('trace'), trace_id)
)
SELECT key.trace_id AS trace_id, key.device_id AS device_id, key.stream AS stream, start_ns, end_ns, depth
FROM interval_depth('waiting');
