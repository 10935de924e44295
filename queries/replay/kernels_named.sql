-- question: Which GPU ops have a name that matches a pattern?
-- params trace, pattern
-- columns trace_id, event_id, name
-- doubts: no_gpu_ops
SELECT trace_id, event_id, name FROM gpu_ops
WHERE trace_id = coalesce(getvariable('trace'), trace_id)
  AND lower(name) GLOB lower(coalesce(getvariable('pattern'), '*'))
ORDER BY trace_id, event_id
