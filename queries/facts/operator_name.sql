-- fact: The name of an operator whose work follows from its inputs.
-- needs: slice_label
-- when: kind = 'cpu_op' AND work IS NOT NULL
-- `operands_read` is how many tensors such an operator reads; any further tensor of an elementwise one is the
-- output argument. `setting` says where an operator's settings stand among its inputs, from 1, as
-- https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/native_functions.yaml declares it, and
-- `told` what else the row in queries/names says of it.
CREATE TABLE _scratch.operator_name AS
SELECT
    name, split_part(work, ' ', 1) AS kind, work[len(kind) + 2:] AS told,
    CASE WHEN kind NOT IN ('elementwise', 'comparison') THEN 99 WHEN has(traits, 'one_operand') THEN 1
         WHEN has(traits, 'three_operands') THEN 3 ELSE 2 END AS operands_read,
    CASE
        WHEN name IN ('aten::convolution', 'aten::_convolution', 'aten::convolution_overrideable')
            THEN MAP {'stride': 4, 'padding': 5, 'dilation': 6, 'transposed': 7, 'added': 8, 'groups': 9}
        WHEN regexp_matches(name, '^aten::(conv[123]d|cudnn_convolution_relu)$')
            THEN MAP {'stride': 4, 'padding': 5, 'dilation': 6}
        WHEN name = 'aten::cudnn_convolution' THEN MAP {'stride': 4, 'padding': 3, 'dilation': 5}
        WHEN name = 'aten::cudnn_convolution_transpose'
            THEN MAP {'stride': 5, 'padding': 3, 'dilation': 6, 'added': 4, 'groups': 7}
        WHEN name = 'aten::miopen_convolution_transpose'
            THEN MAP {'stride': 6, 'padding': 4, 'dilation': 7, 'added': 5, 'groups': 8}
        WHEN name = 'aten::cudnn_convolution_add_relu' THEN MAP {'stride': 6, 'padding': 7, 'dilation': 8}
        WHEN regexp_matches(name, '^aten::(miopen_(depthwise_)?convolution|mkldnn_convolution)$')
            THEN MAP {'stride': 5, 'padding': 4, 'dilation': 6}
        WHEN regexp_matches(name, '^aten::(_slow_conv2d_forward|thnn_conv2d)$')
            THEN MAP {'stride': 5, 'padding': 6}
        WHEN name = 'aten::_conv_depthwise2d' THEN MAP {'stride': 5, 'padding': 6, 'dilation': 7}
        WHEN name = 'aten::_flash_attention_forward' THEN MAP {'causal': 9, 'starts': 4}
        WHEN name = 'aten::_efficient_attention_forward' THEN MAP {'causal': 10}
        WHEN regexp_matches(name, '^aten::_scaled_dot_product_flash_attention(_for_cpu)?$')
            THEN MAP {'causal': 5}
        WHEN regexp_matches(name, '^aten::_scaled_dot_product_(efficient|cudnn)_attention$')
            THEN MAP {'causal': 7}
        WHEN regexp_matches(name, '^aten::(scaled_dot_product_attention|_scaled_dot_product_attention_math)$')
            THEN MAP {'causal': 6}
        WHEN name = 'aten::_flash_attention_backward' THEN MAP {'causal': 12, 'starts': 7}
        WHEN regexp_matches(name, '^aten::_scaled_dot_product_(flash|efficient)_attention_backward$')
            THEN MAP {'causal': 12}
        WHEN regexp_matches(name, '^aten::(_efficient|_scaled_dot_product_cudnn)_attention_backward$')
            THEN MAP {'causal': 15}
        WHEN name IN ('flash_attn::_flash_attn_forward', 'FlashAttnFunc') THEN MAP {'causal': 6}
        WHEN name IN ('flash_attn::_flash_attn_varlen_forward', 'FlashAttnVarlenFunc')
            THEN MAP {'causal': 10, 'starts': 4}
        WHEN name = 'flash_attn::_flash_attn_backward' THEN MAP {'causal': 12, 'inputs': 6}
        WHEN name = 'flash_attn::_flash_attn_varlen_backward'
            THEN MAP {'causal': 16, 'inputs': 6, 'starts': 10}
    END AS setting
FROM (SELECT DISTINCT name, work, traits FROM slice_label WHERE kind = 'cpu_op' AND work IS NOT NULL)
