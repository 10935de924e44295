-- Slices, as the walk of the stack gives them, into `host_slice`.
INSERT INTO host_slice BY NAME
SELECT t.trace_id, t.pid, t.tid, s.* EXCLUDE (thread) REPLACE (is_launch = 1 AS is_launch)
FROM walked AS s JOIN host_thread AS t USING (thread)
