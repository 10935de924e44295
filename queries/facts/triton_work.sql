-- fact: The work of inputs of a Triton kernel that Inductor wrote.
-- into: input_work
-- of: operator_input
-- when: kind = 'cpu_op' AND work = 'triton'
-- Inductor's Triton kernels, which are named after the operators that they fuse. Their arguments are, in this
-- order: tensors that are read and written, inputs, outputs, and numbers; the last number is the number of
-- elements. The trace does not say which argument is which. A kernel with one tensor works in place, unless
-- it only fills it. A pointwise kernel whose last tensor has too few elements for a result works in place,
-- too, on the first tensor, and moves no more of a tensor than its own number of elements. If that is not
-- among them, several kernels are one: of a tensor larger than the last, perhaps only rows are read, as from
-- an embedding. For any other kernel, assume that each tensor moves once and that the last is the output.
-- https://github.com/pytorch/pytorch/blob/main/torch/_inductor/codegen/common.py (KernelArgs.python_argdefs)
WITH launched AS (
    SELECT *, TRY_CAST(c[-1] AS BIGINT) AS numel,
           CASE WHEN len(tensors) = 1
                    THEN NOT regexp_matches(name, '^triton_[a-z]+_fused(_new)?(_(zeros?|ones|full|fill|empty|'
                        || 'arange|rand|randn|randint|inductor_random|inductor_seeds|scalar_tensor|like))*'
                        || '(_[0-9]+)?$')
                WHEN starts_with(name, 'triton_poi_')
                    THEN tensors[-1].elements < numel AND tensors[1].elements >= numel
           END IS TRUE AS is_in_place,
           CASE WHEN starts_with(name, 'triton_poi_') THEN list_transform(tensors, lambda each: CASE
                   WHEN numel > 0 THEN least(each.elements, numel)
                   WHEN each.elements <= tensors[-1].elements THEN each.elements ELSE 0 END * each.size)
               ELSE sizes END AS moved
    FROM _scratch.operator_input WHERE kind = 'triton'
)
SELECT name, dims, types, concrete, type, FALSE AS is_matrix,
       list_max(list_transform(tensors, lambda each: each.elements)) * len(regexp_extract_all(name,
           '_(add|sub|mul|div|pow|sqrt|rsqrt|exp|log|mean|sum|var|amax|softmax|gelu|silu|relu|sigmoid|tanh|'
           || 'where|maximum|minimum|native_layer_norm|native_dropout|neg|abs|sin|cos|clamp)'
       )) AS flops,
       CASE WHEN is_in_place THEN list_sum(moved) ELSE coalesce(list_sum(moved[:-2]), 0) END AS read,
       CASE WHEN is_in_place THEN moved[1] ELSE moved[-1] END AS written, 0 AS weights, FALSE AS is_exact
FROM launched
