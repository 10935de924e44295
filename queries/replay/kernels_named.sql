-- question: Which GPU ops have a name or a class that matches a pattern?
-- since: 0.1
-- params pattern
-- param by (text, default 'name'): `name`, or `class`: gemm, attention, convolution ...
-- columns event_id, name, class
-- doubts: no_gpu_ops
SELECT trace_id, event_id, name, class FROM gpu_ops WHERE is_asked(trace_id)
    AND if(coalesce(getvariable('by'), 'name') = 'class', class::VARCHAR, lower(name))
        GLOB lower(coalesce(getvariable('pattern'), '*'))
ORDER BY trace_id, event_id
