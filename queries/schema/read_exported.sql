-- What export writes around the events of each trace: its form and its metadata; `text` is the metadata as
-- in the file, where characters in it were replaced.
SELECT trace_id, form, metadata, text
FROM trace LEFT JOIN (FROM verbatim WHERE event_id IS NULL) USING (trace_id) ORDER BY trace_id
