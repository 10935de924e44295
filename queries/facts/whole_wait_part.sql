-- fact: What a thread did in a late gap that the timeline stores as one row, or in a part of it.
-- needs: gpu_timeline, thread_segment, host_thread, gpu_op_launch, windows
-- of: crowded_trace
CREATE TABLE scratch.whole_wait_part (
    trace_id INTEGER, -- the trace
    device_id BIGINT, cause idle_cause, op_id BIGINT, start_ns BIGINT, end_ns BIGINT, ns BIGINT
);
FROM whole_waits_of('windows')
