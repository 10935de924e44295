-- Names that facts had before they were tables.
CREATE OR REPLACE VIEW gpu_op_launch AS
SELECT trace_id, event_id, kind, device_id, stream, launch_id, pid, tid, launch_name, is_graph,
       can_be_captured, launch_start_ns, launch_end_ns, launch_delay_ns, queue_wait_ns, is_blocking,
       is_copy_call
FROM gpu_ops WHERE launch_id IS NOT NULL;
CREATE OR REPLACE VIEW gpu_op_link AS FROM gpu_op_launch;
CREATE OR REPLACE VIEW gpu_op_host AS FROM launch_site;
CREATE OR REPLACE VIEW launched_so_far AS
SELECT trace_id, pid, tid, start_ns AS at_ns, gpu_ops, kernels, gpu_ns FROM launch_call;
CREATE OR REPLACE MACRO measured_work() AS TABLE FROM operator_time;
CREATE OR REPLACE MACRO graph_sites() AS TABLE FROM graph_site;
CREATE OR REPLACE MACRO collectives() AS TABLE
SELECT * EXCLUDE (exposed_ns, alike_count, wait_ns) FROM collective;

-- The spellings of kernel classes.
CREATE OR REPLACE VIEW kernel_patterns AS
SELECT rank, meaning AS class, pattern, source AS known_from FROM spelling WHERE facet = 'class';
