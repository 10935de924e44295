-- Inserts segments, from the walk of the stack, into `thread_segment`.
INSERT INTO thread_segment BY NAME SELECT * FROM walked
