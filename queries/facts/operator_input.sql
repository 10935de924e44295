-- fact: Distinct inputs of such an operator, parsed: shapes are few, calls are many.
-- of: operator_call, operator_name
-- `d` are the dimensions and `t` the types of the inputs, `c` the numbers and flags among them. `tensors`
-- also have elements and bytes, and so do `operands`, those that an elementwise operator reads.
CREATE TABLE _scratch.operator_input AS
WITH parsed AS (
    SELECT *, shapes_of(dims) AS d, texts_of(types) AS t, texts_of(concrete) AS c,
           replace(replace(kind, '_backward', ''), '_bshd', '') AS family,
           contains(kind, 'backward') AS is_backward
    FROM (SELECT DISTINCT name, kind, dims, types, concrete FROM _scratch.operator_call)
    JOIN _scratch.operator_name USING (name, kind)
),
sized AS (
    SELECT *, list_filter(
        list_transform(list_zip(d, t), lambda x: {
            'shape': x[1], 'elements': elements(x[1]), 'size': element_bytes(x[2]), 'type': x[2]
        }),
        lambda x: x.size IS NOT NULL
    ) AS tensors
    FROM parsed
)
SELECT *, tensors[:operands_read] AS operands, tensors[1].type AS type, tensors[1].size AS size,
       list_transform(tensors, lambda x: x.elements * x.size) AS sizes, list_sum(sizes) AS input_bytes
FROM sized
