-- fact: A window's time in one activity, idle class and cause.
-- needs: gpu_timeline, whole_wait_part
-- of: windows
CREATE TABLE window_timeline_parts (
    trace_id INTEGER, -- the trace
    device_id BIGINT, kind VARCHAR, name VARCHAR, window_start_ns BIGINT, window_end_ns BIGINT,
    activity device_activity, idle_class idle_class, cause idle_cause, ns BIGINT,
    gaps     BIGINT   -- late gaps that contain it
);
WITH whole_wait_part AS (FROM scratch.whole_wait_part)
FROM parts_of('windows', 'whole_wait_part')
