-- The queue between host and device: launches of the host that the device has not begun to work on, by
-- stream, as stretches of one depth. A graph is one launch. What starts before its launch (clocks differ)
-- was in no queue.
CREATE OR REPLACE MACRO launch_queue() AS TABLE
WITH waiting AS (
    SELECT {'trace_id': trace_id, 'device_id': device_id, 'stream': stream} AS key, launch_start_ns AS start_ns,
           launch_start_ns + min(launch_delay_ns) AS end_ns
    FROM gpu_op_link
    WHERE trace_id = coalesce(getvariable('trace'), trace_id)
    GROUP BY trace_id, device_id, stream, launch_id, launch_start_ns HAVING min(launch_delay_ns) >= 0
)
SELECT key.trace_id AS trace_id, key.device_id AS device_id, key.stream AS stream, start_ns, end_ns, depth
FROM interval_depth('waiting');
