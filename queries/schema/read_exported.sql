-- The parts of each trace that export writes around its events: form and metadata; `text` is the metadata as
-- in the file, if characters in it were replaced.
SELECT trace_id, form, metadata, text
FROM trace LEFT JOIN (FROM verbatim WHERE event_id IS NULL) USING (trace_id) ORDER BY trace_id
