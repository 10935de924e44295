-- The work of operators, from the shapes and types of their inputs: FLOPs (a multiply-add is two) and bytes
-- that must be read and written at least once.
--
-- Matrix products and convolutions count as torch.utils.flop_counter does
-- (https://github.com/pytorch/pytorch/blob/main/torch/utils/flop_counter.py). Attention is its two products,
-- halved where it is causal; its backward pass 2.5 times that (FlashAttention-2,
-- https://arxiv.org/abs/2307.08691, section 4.1).
-- Elementwise work and reductions count one operation an element, softmax 5, normalization 8, twice that
-- backward: a convention without effect on what limits them, which is bytes.

-- Bytes of an element by its type's name in a trace (c10::ScalarType, or C++'s own); NULL if it is
-- not a tensor.
CREATE OR REPLACE MACRO element_bytes(type) AS CASE
    WHEN type IN ('float', 'int', 'unsigned int', 'c10::UInt32', 'c10::complex<c10::Half>') THEN 4
    WHEN type IN ('c10::BFloat16', 'c10::Half', 'short int', 'short', 'unsigned short', 'c10::UInt16') THEN 2
    WHEN type IN ('double', 'long int', 'long', 'long long', 'unsigned long', 'c10::complex<float>') THEN 8
    WHEN type IN ('bool', 'unsigned char', 'signed char', 'char', 'c10::qint8', 'c10::quint8')
        OR type LIKE 'c10::Float8%' OR type LIKE 'c10::Float4%' THEN 1
    WHEN type = 'c10::complex<double>' THEN 16 END;

-- The name of the peak (hardware.toml) with which a matrix product of such elements is compared. Only the
-- kernel tells in which format fp32 is multiplied: see the trait tf32.
CREATE OR REPLACE MACRO peak_name(type) AS CASE
    WHEN type = 'c10::BFloat16' THEN 'bf16' WHEN type = 'c10::Half' THEN 'fp16'
        WHEN type = 'float' THEN 'fp32'
        WHEN type = 'double' THEN 'fp64'
    WHEN type LIKE 'c10::Float8%' THEN 'fp8' WHEN type LIKE 'c10::Float4%' THEN 'fp4'
    WHEN type IN ('signed char', 'char', 'unsigned char') THEN 'int8' END;

-- What limits an operator on a CPU that does this work in this time: math or memory-bandwidth. NULL: not
-- known, or so little work that its dispatch takes the time. CPUs' peaks are not known, so intensity decides.
CREATE OR REPLACE MACRO host_limit(flops, bytes, ns) AS CASE
    WHEN flops >= thresholds().host_flop_per_byte * bytes
        THEN CASE WHEN flops >= thresholds().host_work_per_ns * ns THEN 'math' END
    WHEN bytes >= thresholds().host_work_per_ns * ns THEN 'memory-bandwidth' END;

-- A recorded list of shapes and of other texts. A list of tensors has NULL dimensions.
CREATE OR REPLACE MACRO shapes_of(dims) AS from_json(dims, '[["BIGINT"]]');
CREATE OR REPLACE MACRO texts_of(texts) AS from_json(texts, '["VARCHAR"]');
-- '[2, 2]' -> [2, 2]
CREATE OR REPLACE MACRO integers_of(text) AS TRY_CAST(text AS BIGINT[]);
CREATE OR REPLACE MACRO is_true(text) AS lower(text) IN ('true', '1');
CREATE OR REPLACE MACRO elements(shape) AS CASE WHEN shape IS NULL THEN NULL
    ELSE coalesce(list_product(shape), 1) END;
CREATE OR REPLACE MACRO nth_or_last(numbers, i) AS coalesce(numbers[i], numbers[-1]);

-- Elements of the shapes' broadcast (https://docs.pytorch.org/docs/stable/notes/broadcasting.html).
CREATE OR REPLACE MACRO broadcast_elements(shapes) AS coalesce(list_product(list_transform(
    range(1, list_max(list_transform(shapes, lambda s: len(s))) + 1),
    lambda k: list_max(list_transform(shapes, lambda s: coalesce(list_reverse(s)[k], 1)))
)), 1);

-- Elements of a convolution's output in space.
CREATE OR REPLACE MACRO convolved(space, kernel, stride, padding, dilation) AS list_product(list_transform(
    range(1, len(space) + 1),
    lambda k: (space[k] + 2 * nth_or_last(padding, k) - nth_or_last(dilation, k)
        * (kernel[k] - 1) - 1) // nth_or_last(stride, k) + 1
));

-- Where an operator's settings stand among its inputs, from 1, as
-- https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/native_functions.yaml declares it.
CREATE OR REPLACE MACRO settings_of(name) AS CASE
    WHEN name IN ('aten::convolution', 'aten::_convolution')
        THEN MAP {'stride': 4, 'padding': 5, 'dilation': 6, 'transposed': 7}
    WHEN regexp_matches(name, '^aten::(conv[123]d|cudnn_convolution_relu)$')
        THEN MAP {'stride': 4, 'padding': 5, 'dilation': 6}
    WHEN name = 'aten::cudnn_convolution' THEN MAP {'stride': 4, 'padding': 3, 'dilation': 5}
    WHEN name = 'aten::cudnn_convolution_add_relu' THEN MAP {'stride': 6, 'padding': 7, 'dilation': 8}
    WHEN regexp_matches(name, '^aten::(miopen_(depthwise_)?convolution|mkldnn_convolution)$')
        THEN MAP {'stride': 5, 'padding': 4, 'dilation': 6}
    WHEN regexp_matches(name, '^aten::(_slow_conv2d_forward|thnn_conv2d)$')
        THEN MAP {'stride': 5, 'padding': 6}
    WHEN name = 'aten::_conv_depthwise2d' THEN MAP {'stride': 5, 'padding': 6, 'dilation': 7}
    WHEN name = 'aten::_flash_attention_forward' THEN MAP {'causal': 9}
    WHEN name = 'aten::_flash_attention_backward' THEN MAP {'causal': 13}
    WHEN regexp_matches(name, '^aten::_scaled_dot_product_flash_attention(_for_cpu)?$') THEN MAP {'causal': 5}
    WHEN regexp_matches(name, '^aten::_scaled_dot_product_(efficient|cudnn)_attention$')
        THEN MAP {'causal': 7}
    WHEN regexp_matches(name, '^aten::(scaled_dot_product_attention|_scaled_dot_product_attention_math)$')
        THEN MAP {'causal': 6}
    WHEN name = 'aten::_scaled_dot_product_flash_attention_backward' THEN MAP {'causal': 12} END;

-- How many tensors an operator of this kind reads; any further tensor of an elementwise one is the output
-- argument.
CREATE OR REPLACE MACRO operand_count(kind, traits) AS CASE
    WHEN kind NOT IN ('elementwise', 'comparison') THEN 99
    WHEN has(traits, 'one_operand') THEN 1 WHEN has(traits, 'three_operands') THEN 3 ELSE 2 END;

-- Distinct shapes (a relation with name, kind, dims, types, concrete, operands_read and setting, by its
-- name), parsed: `d` the
-- dimensions and `t` the types of the inputs, `c` the numbers and flags among them; of those that are
-- tensors, the elements and bytes, of all (`tensors`) and of those that an elementwise operator reads
-- (`operands`).
CREATE OR REPLACE MACRO operator_inputs(shapes) AS TABLE
WITH parsed AS (
    SELECT *, shapes_of(dims) AS d, texts_of(types) AS t, texts_of(concrete) AS c,
           replace(replace(kind, '_backward', ''), '_bshd', '') AS family,
           contains(kind, 'backward') AS is_backward
    FROM query_table(shapes)
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
FROM sized;

-- A macro for each family of operators: of operator_inputs (a relation, by its name), the FLOPs and the bytes
-- read and written; NULL where the inputs do not tell. An expression of one step is a column of the next.

-- Matrix products: `a` and `b` are the two factors.
CREATE OR REPLACE MACRO matrix_work(inputs) AS TABLE
WITH factored AS (
    SELECT *,
           CASE WHEN kind IN ('mm', 'bmm') THEN d[1] WHEN kind IN ('addmm', 'baddbmm') THEN d[2]
                WHEN kind = 'linear' THEN [elements(d[1]) // d[1][-1], d[1][-1]]::BIGINT[] END AS a,
           CASE WHEN kind IN ('mm', 'bmm') THEN d[2] WHEN kind IN ('addmm', 'baddbmm') THEN d[3]
                WHEN kind = 'linear' THEN list_reverse(d[2]) END AS b,
           kind IN ('bmm', 'baddbmm') AS is_batched
    FROM query_table(inputs) WHERE kind IN ('mm', 'addmm', 'linear', 'bmm', 'baddbmm')
)
SELECT name, dims, types, concrete, type, TRUE AS is_matrix,
       CASE WHEN is_batched AND len(a) = 3 AND len(b) = 3 THEN 2 * a[1] * a[2] * a[3] * b[3]
            WHEN NOT is_batched AND len(a) = 2 AND len(b) = 2 THEN 2 * a[1] * a[2] * b[2] END AS flops,
       -- Further tensors are scales or where the result goes (out=).
       CASE WHEN kind IN ('mm', 'bmm') THEN CASE WHEN len(sizes) >= 2 THEN sizes[1] + sizes[2] END
            ELSE list_sum(sizes[:3]) END AS read,
       CASE WHEN is_batched THEN a[1] * a[2] * b[3] ELSE a[1] * b[2] END * size AS written
FROM factored;

-- Gated MLPs in one operator: x with the weights of gate and up, and of down; or what both gave, as one.
CREATE OR REPLACE MACRO gated_work(inputs) AS TABLE
SELECT name, dims, types, concrete, type, kind <> 'gated_packed' AS is_matrix,
       CASE kind WHEN 'gated_packed' THEN elements(d[1]) // 2
           ELSE 2 * elements(d[1]) * d[2][1] * CASE kind WHEN 'gated_products' THEN 2 ELSE 3 END END AS flops,
       list_sum(sizes[:CASE kind WHEN 'gated_packed' THEN 1 WHEN 'gated_products' THEN 3 ELSE 4 END]) AS read,
       CASE kind WHEN 'gated_packed' THEN sizes[1] // 2
           WHEN 'gated_products' THEN elements(d[1]) // d[2][2] * d[2][1] * size ELSE sizes[1] END AS written
FROM query_table(inputs) WHERE kind IN ('gated_packed', 'gated_products', 'gated_mlp');

-- Convolutions of an input `x` with a weight `w` (backward: both after the output's gradient). `mask` says
-- which gradients are wanted.
CREATE OR REPLACE MACRO convolution_work(inputs) AS TABLE
WITH named AS (
    SELECT *, d[CASE WHEN is_backward THEN 2 ELSE 1 END] AS x,
           d[CASE WHEN is_backward THEN 3 ELSE 2 END] AS w,
           integers_of(c[setting['stride']]) AS stride, integers_of(c[setting['padding']]) AS padding,
           CASE WHEN setting['dilation'] IS NULL THEN [1]
                ELSE integers_of(c[setting['dilation']]) END AS dilation,
           coalesce(is_true(c[CASE WHEN is_backward THEN 8 ELSE setting['transposed'] END]),
               FALSE) AS is_transposed,
           CASE WHEN is_backward THEN
               list_transform(string_split(trim(c[11], '[]'), ','), lambda m: is_true(trim(m)))
           END AS mask
    FROM query_table(inputs) WHERE family = 'convolution'
),
measured AS (
    SELECT *,
           CASE WHEN is_backward THEN elements(d[1])
                WHEN NOT is_transposed AND len(stride) > 0 AND len(padding) > 0 AND len(dilation) > 0
                    THEN x[1] * w[1] * convolved(x[3:], w[3:], stride, padding, dilation) END AS out
    FROM named
)
SELECT name, dims, types, concrete, type, TRUE AS is_matrix,
       -- Each position of the output (transposed: of the input) takes one product with the weight.
       CASE WHEN len(x) BETWEEN 3 AND 5 AND len(w) = len(x) THEN
           CASE WHEN is_backward THEN mask[1]::INTEGER + mask[2]::INTEGER ELSE 1 END * 2 * elements(w)
           * CASE WHEN is_transposed THEN elements(x) / x[2] ELSE out / w[1] END
       END AS flops,
       input_bytes AS read,
       CASE WHEN is_backward THEN mask[1]::INTEGER * sizes[2] + mask[2]::INTEGER * sizes[3]
            WHEN NOT is_transposed THEN out * size END AS written
FROM measured;

-- Attention of query, key and value: (batch, heads, sequence, features), or heads third.
CREATE OR REPLACE MACRO attention_work(inputs) AS TABLE
WITH named AS (
    SELECT *, d[CASE WHEN is_backward THEN 2 ELSE 1 END] AS q,
           d[CASE WHEN is_backward THEN 3 ELSE 2 END] AS k,
           d[CASE WHEN is_backward THEN 4 ELSE 3 END] AS v,
           CASE WHEN contains(kind, 'bshd') THEN 2 ELSE 3 END AS sequence_at,
           coalesce(is_true(c[setting['causal']]), FALSE) AS is_causal, q[sequence_at] AS sq,
           k[sequence_at] AS sk
    FROM query_table(inputs) WHERE family = 'attention'
)
SELECT name, dims, types, concrete, type, TRUE AS is_matrix,
       CASE WHEN len(q) = 4 AND len(k) = 4 AND len(v) = 4 THEN
           2 * elements(q) / q[4] * sk * (q[4] + v[4]) * CASE WHEN is_backward THEN 2.5 ELSE 1 END
           * CASE WHEN is_causal AND sq = sk THEN (sk + 1) / (2 * sk) ELSE 1 END
       END AS flops,
       input_bytes AS read,
       CASE WHEN is_backward THEN elements(q) + elements(k) + elements(v)
            ELSE elements(q) / q[4] * v[4] END * size AS written
FROM named;

-- Normalization and softmax: they write as many rows as they read.
CREATE OR REPLACE MACRO row_work(inputs) AS TABLE
SELECT name, dims, types, concrete, type, FALSE AS is_matrix,
       tensors[1].elements * CASE kind WHEN 'normalization' THEN 8 WHEN 'normalization_backward' THEN 16
           ELSE 5 END
       AS flops,
       CASE kind WHEN 'softmax' THEN sizes[1] WHEN 'softmax_backward' THEN sizes[1] + sizes[2]
                 ELSE input_bytes END AS read,
       sizes[1] AS written
FROM query_table(inputs) WHERE family IN ('normalization', 'softmax');

-- Elementwise work and comparisons, over the broadcast shape of all inputs.
CREATE OR REPLACE MACRO elementwise_work(inputs) AS TABLE
WITH measured AS (
    SELECT *, broadcast_elements(list_transform(operands, lambda each: each.shape)) AS out,
           -- A number arrives as a tensor without dimensions, and does not widen the others.
           list_max(list_transform(operands, lambda each:
               CASE WHEN len(each.shape) > 0
                   OR elements(operands[1].shape) = 1 THEN each.size END)) AS promoted
    FROM query_table(inputs) WHERE kind IN ('elementwise', 'comparison')
)
SELECT name, dims, types, concrete, type, FALSE AS is_matrix, out AS flops,
       list_sum(list_transform(operands, lambda each: each.elements * each.size)) AS read,
       out * CASE WHEN kind = 'comparison' THEN 1 WHEN ends_with(name, '_') THEN size
           ELSE promoted END AS written
FROM measured;

-- Reductions, over some dimensions or, where none are named, over all.
CREATE OR REPLACE MACRO reduction_work(inputs) AS TABLE
WITH named AS (
    SELECT *, coalesce(integers_of(c[2]), [TRY_CAST(c[2] AS BIGINT)]) AS dimensions
    FROM query_table(inputs) WHERE kind = 'reduction'
)
SELECT name, dims, types, concrete, type, FALSE AS is_matrix, tensors[1].elements AS flops, sizes[1] AS read,
       elements(d[1]) / coalesce(list_product(list_transform(
           CASE WHEN len(dimensions) > 0 AND dimensions[1] IS NOT NULL THEN dimensions
               ELSE range(len(d[1])) END,
           lambda i: d[1][CASE WHEN i < 0 THEN len(d[1]) + i + 1 ELSE i + 1 END]
       )), 1) * size AS written
FROM named;

-- Copies, fills and embeddings: bytes only, no FLOPs.
CREATE OR REPLACE MACRO copy_work(inputs) AS TABLE
SELECT name, dims, types, concrete, type, FALSE AS is_matrix, 0 AS flops,
       CASE kind
           WHEN 'copy' THEN elements(d[1]) * element_bytes(t[2])
           WHEN 'fill' THEN 0
           WHEN 'embedding' THEN CASE WHEN len(d[1]) = 2 AND len(tensors) = 2
               THEN tensors[2].elements * (d[1][2] * size + tensors[2].size) END
           ELSE input_bytes END AS read,
       CASE kind WHEN 'embedding' THEN tensors[2].elements * d[1][2] * size
                 WHEN 'embedding_backward' THEN TRY_CAST(c[3] AS BIGINT) * d[1][-1] * size
                 ELSE sizes[1] END AS written
FROM query_table(inputs) WHERE kind IN ('copy', 'fill', 'embedding', 'embedding_backward');

-- Inductor's Triton kernels, which are named after the operators that they fuse. Of their arguments, those
-- that are read and written come first, then inputs, outputs and numbers, of which the last is the number of
-- elements. The trace does not mark them. A kernel with one tensor works in place, unless it only fills it; a
-- pointwise one whose last tensor has too few elements for a result works in place, too, on the first. Of any
-- other, assume that each tensor moves once and that the last is the output.
-- https://github.com/pytorch/pytorch/blob/main/torch/_inductor/codegen/common.py (KernelArgs.python_argdefs)
CREATE OR REPLACE MACRO triton_work(inputs) AS TABLE
WITH told AS (
    SELECT *, TRY_CAST(c[-1] AS BIGINT) AS numel,
           CASE WHEN len(tensors) = 1
                    THEN NOT regexp_matches(name, '^triton_[a-z]+_fused(_new)?(_(zeros?|ones|full|fill|empty|'
                        || 'arange|rand|randn|randint|inductor_random|inductor_seeds|scalar_tensor|like))*'
                        || '(_[0-9]+)?$')
                WHEN starts_with(name, 'triton_poi_')
                    THEN tensors[-1].elements < numel AND tensors[1].elements >= numel
           END IS TRUE AS is_in_place
    FROM query_table(inputs) WHERE kind = 'triton'
)
SELECT name, dims, types, concrete, type, FALSE AS is_matrix,
       list_max(list_transform(tensors, lambda each: each.elements)) * len(regexp_extract_all(name,
           '_(add|sub|mul|div|pow|sqrt|rsqrt|exp|log|mean|sum|var|amax|softmax|gelu|silu|relu|sigmoid|tanh|'
           || 'where|maximum|minimum|native_layer_norm|native_dropout|neg|abs|sin|cos|clamp)'
       )) AS flops,
       CASE WHEN is_in_place THEN input_bytes ELSE coalesce(list_sum(sizes[:-2]), 0) END AS read,
       CASE WHEN is_in_place THEN sizes[1] ELSE sizes[-1] END AS written
FROM told;

-- The work of each distinct set of shapes: shapes are few, calls are many. Empty tensors give no work.
CREATE OR REPLACE MACRO shape_work(shapes) AS TABLE
WITH inputs AS MATERIALIZED (FROM operator_inputs(shapes)),
work AS (
    FROM matrix_work('inputs')
    UNION ALL
    FROM gated_work('inputs')
    UNION ALL
    FROM convolution_work('inputs')
    UNION ALL
    FROM attention_work('inputs')
    UNION ALL
    FROM row_work('inputs')
    UNION ALL
    FROM elementwise_work('inputs')
    UNION ALL
    FROM reduction_work('inputs')
    UNION ALL
    FROM copy_work('inputs')
    UNION ALL
    FROM triton_work('inputs')
)
SELECT name, dims, types, concrete, type, is_matrix, flops::DOUBLE AS flops,
       TRY_CAST(read AS BIGINT) AS read_bytes,
       TRY_CAST(written AS BIGINT) AS written_bytes
FROM work WHERE isfinite(flops::DOUBLE);

-- The GPU ops of operators that could be fused, once for each intermediate: the operator's name and that of
-- the other one, the intermediate's bytes, and those that the operator moves in all.
CREATE OR REPLACE MACRO fusable_ops() AS TABLE
SELECT trace_id, first_op_id AS event_id, first AS name, name AS other, intermediate, first_bytes AS moved,
       TRUE AS is_first
FROM fusable_pair
UNION ALL
SELECT trace_id, second_op_id, name, first, intermediate, second_bytes, FALSE FROM fusable_pair;

-- The work of devices: of operators that the host called, and of those that replays of graphs ran (known from
-- their capture).
CREATE OR REPLACE MACRO all_work() AS TABLE
SELECT trace_id, device_id, name, dims, 'call' AS known_from, is_matrix, peak, flops, read_bytes,
       written_bytes, gpu_op_ids, busy_ns
FROM operator_time
UNION ALL
SELECT trace_id, device_id, name, dims, 'capture', is_matrix, peak, flops, read_bytes, written_bytes,
       gpu_op_ids, busy_ns
FROM replayed_work;
