-- Names that facts had before they were tables.
CREATE OR REPLACE VIEW gpu_op_link AS FROM gpu_op_launch;
CREATE OR REPLACE VIEW gpu_op_host AS FROM launch_site;
CREATE OR REPLACE VIEW launched_so_far AS
SELECT trace_id, pid, tid, start_ns AS at_ns, gpu_ops, kernels, gpu_ns FROM launch_call;
CREATE OR REPLACE MACRO measured_work() AS TABLE FROM operator_time;
CREATE OR REPLACE MACRO graph_sites() AS TABLE FROM graph_site;
CREATE OR REPLACE MACRO collectives() AS TABLE
SELECT * EXCLUDE (exposed_ns, alike_count, wait_ns) FROM collective;
