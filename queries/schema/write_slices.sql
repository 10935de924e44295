-- Inserts slices, from the walk of the stack, into `thread_slice`.
INSERT INTO thread_slice BY NAME SELECT walked.*, trace_id FROM walked JOIN host_thread USING (thread)
