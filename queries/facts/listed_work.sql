-- fact: The work of a call of an operator on lists of tensors.
-- into: call_work
-- of: call_kernel
-- when: kind = 'cpu_op' AND work LIKE 'listed %'
-- Traces record the shapes of such tensors, but no types: the kernel's name has the size of an element. They
-- are assumed to have the same, so mixed ones do not count.
WITH sized AS (
    SELECT trace_id, event_id, any_value(told) AS told,
           any_value(from_json(dims, '["JSON"]')) AS listed, arg_min(kernel, kernel) AS kernel
    FROM _scratch.call_kernel WHERE kind = 'listed'
    GROUP BY trace_id, event_id
),
typed AS (
    SELECT *, places_of(told, 'reads') AS reads, places_of(told, 'writes') AS writes,
           coalesce(TRY_CAST(regexp_extract(kernel, 'OpaqueType<(\d+)u?>', 1) AS BIGINT),
               element_bytes(regexp_extract(kernel,
                   '[<( ](float|double|c10::Half|c10::BFloat16|unsigned char|signed char|short|long|int|bool)'
                   || '[,>*]', 1))) AS size,
           list_transform(listed, lambda each: CASE WHEN starts_with(each, '[[') THEN
               list_sum(list_transform(shapes_of(each), lambda shape: elements(shape))) END) AS counts
    FROM sized
)
SELECT trace_id, event_id, NULL AS type, FALSE AS is_matrix,
       coalesce(counts[coalesce(reads[1], writes[1]).place], 0) AS flops,
       coalesce(list_sum(list_transform(reads, lambda each: counts[each.place] * size)), 0) AS read,
       coalesce(list_sum(list_transform(writes, lambda each: counts[each.place] * size)), 0) AS written,
       0 AS weights, TRUE AS is_exact
FROM typed WHERE size > 0 AND flops > 0
