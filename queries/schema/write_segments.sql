-- Segments, as the walk of the stack gives them, into `thread_segment`.
INSERT INTO thread_segment BY NAME SELECT * FROM walked
