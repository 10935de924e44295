-- question: Which GPU ops would move fewer bytes if adjacent operators were fused?
-- since: 0.1
-- params pattern
-- columns event_id
-- column saved_share (fraction of its time): the intermediates' share of its operator's bytes, by shapes
-- doubts: no_gpu_ops, no_shapes, unlinked_gpu_ops
SELECT trace_id, event_id, least(1, sum(intermediate) / any_value(moved)) AS saved_share
FROM fusable_ops WHERE is_asked(trace_id)
    AND lower(name) GLOB lower(coalesce(getvariable('pattern'), '*'))
    AND lower(other) GLOB lower(coalesce(getvariable('pattern'), '*'))
GROUP BY trace_id, event_id
ORDER BY trace_id, event_id
