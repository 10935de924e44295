-- Inserts launches with the slices around them, from the walk of the stack, into `launch_site`.
INSERT INTO launch_site BY NAME
SELECT trace_id, w.* EXCLUDE (thread) FROM walked AS w JOIN host_thread USING (thread)
