-- Launches with what is around them, as the walk of the stack gives them, into `launch_site`.
INSERT INTO launch_site BY NAME
SELECT trace_id, w.* EXCLUDE (thread) FROM walked AS w JOIN host_thread USING (thread)
