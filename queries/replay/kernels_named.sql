-- question: Which GPU ops have a name that matches a pattern?
-- param trace (integer, default all): the trace_id to look at
-- param pattern (text, default '*'): a glob pattern of the name; case does not matter
-- column trace_id (id): the trace
-- column event_id (id): the GPU op
-- column name (text): its name
-- doubts: no_gpu_ops
SELECT trace_id, event_id, name FROM gpu_ops
WHERE trace_id = coalesce(getvariable('trace'), trace_id)
  AND lower(name) GLOB lower(coalesce(getvariable('pattern'), '*'))
ORDER BY trace_id, event_id
