-- When the host launched the first op that a device's recording, which stopped before the host's, lacks.
SELECT trace_id, end_ns - time_ns FROM recorder_finding JOIN trace_span USING (trace_id)
WHERE code = 'dropped_at_end' AND trace_id IN (SELECT unnest($traces))
