-- Segments, as the walk of the stack gives them, into `host_segment`. Without a name there is no slice.
INSERT INTO host_segment
SELECT t.trace_id, t.pid, t.tid, s.segment, s.start_ns, s.end_ns, s.event_id, coalesce(n.activity, 'untraced')
FROM walked AS s JOIN host_thread AS t USING (thread) LEFT JOIN host_name AS n USING (name_id)
