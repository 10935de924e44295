-- Inserts slices, from the walk of the stack, into `thread_slice`.
INSERT INTO thread_slice BY NAME SELECT * FROM walked
