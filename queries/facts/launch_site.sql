-- fact: A launch of GPU ops with the innermost operator, Python frame and module around it.
-- needs: host_thread, gpu_op_launch, gap
-- by: walk
CREATE TABLE launch_site (
    trace_id INTEGER, -- the trace
    launch_id BIGINT, cpu_op_id BIGINT, python_id BIGINT, module_id BIGINT
);
