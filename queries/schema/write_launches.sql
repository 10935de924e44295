-- Launches with what is around them, as the walk of the stack gives them, into `gpu_op_host`.
INSERT INTO gpu_op_host BY NAME
SELECT trace_id, w.* EXCLUDE (thread) FROM walked AS w JOIN host_thread USING (thread)
