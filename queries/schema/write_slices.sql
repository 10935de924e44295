-- Slices, as the walk of the stack gives them, into `thread_slice`.
INSERT INTO thread_slice BY NAME SELECT * FROM walked
