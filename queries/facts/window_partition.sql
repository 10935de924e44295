-- fact: A window with the time in which its device computed, communicated, copied and was idle.
-- needs: gpu_op_launch, gpu_ops
-- of: window_timeline_parts
CREATE TABLE window_partition (
    trace_id INTEGER, -- the trace
    device_id BIGINT, kind VARCHAR, name VARCHAR, start_ns BIGINT, end_ns BIGINT, span_ns BIGINT,
    compute_ns BIGINT, exposed_comm_ns BIGINT, exposed_memcpy_ns BIGINT, idle_ns BIGINT, host_late_ns BIGINT,
    device_ns BIGINT, device_in_launch_ns BIGINT, unlinked_ns BIGINT, after_last_op_ns BIGINT, busy_ns BIGINT,
    waits_for_host_ns BIGINT, kernels BIGINT, gpu_ops BIGINT, linked BIGINT
);
FROM partition_of('window_timeline_parts')
