-- question: Which GPU ops have a class that matches a pattern?
-- params trace
-- param pattern (text, default '*'): a glob pattern of the class: gemm, attention, convolution,
--     normalization, reduction, elementwise, copy, communication, triton, memcpy, memset or other
-- columns trace_id, event_id, class
-- doubts: no_gpu_ops
SELECT trace_id, event_id, class FROM gpu_ops
WHERE trace_id = coalesce(getvariable('trace'), trace_id)
    AND class GLOB lower(coalesce(getvariable('pattern'), '*'))
ORDER BY trace_id, event_id
