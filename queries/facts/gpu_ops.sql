-- fact: Something that a device executed.
-- needs: slice_label
-- when: kind IN ('kernel', 'memcpy', 'memset')
-- An event is a GPU op by its category; having a stream is not enough.
CREATE TABLE gpu_ops (
    trace_id INTEGER,         -- the trace
    event_id BIGINT,          -- the event
    kind gpu_op_kind,
    activity device_activity, -- what the device does in it
    class    gpu_op_class,    -- a kernel's class, else the kind
    name VARCHAR, device_id BIGINT, stream BIGINT, start_ns BIGINT, end_ns BIGINT, dur_ns BIGINT,
    correlation BIGINT, external_id BIGINT
);
SELECT
    trace_id, event_id, kind::gpu_op_kind AS kind,
    CASE WHEN kind <> 'kernel' THEN 'copy' WHEN class = 'communication' THEN 'communication'
         ELSE 'compute' END::device_activity AS activity,
    coalesce(class, kind)::gpu_op_class AS class,
    name, coalesce(device_id, pid) AS device_id, coalesce(stream, tid) AS stream, start_ns, end_ns, dur_ns,
    correlation, external_id
FROM slices WHERE kind IN ('kernel', 'memcpy', 'memset')
