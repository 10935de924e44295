-- fact: The name of an operator whose work follows from its inputs.
-- needs: slice_label
-- when: kind = 'cpu_op' AND work IS NOT NULL
-- `operands_read` is how many tensors such an operator reads; any further tensor of an elementwise one is the
-- output argument. `setting` says where an operator's settings stand among its inputs, from 1, as
-- https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/native_functions.yaml declares it.
CREATE TABLE _scratch.operator_name AS
SELECT
    name, work AS kind,
    CASE WHEN work NOT IN ('elementwise', 'comparison') THEN 99 WHEN has(traits, 'one_operand') THEN 1
         WHEN has(traits, 'three_operands') THEN 3 ELSE 2 END AS operands_read,
    CASE
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
        WHEN name = 'aten::_efficient_attention_forward' THEN MAP {'causal': 10}
        WHEN regexp_matches(name, '^aten::_scaled_dot_product_flash_attention(_for_cpu)?$')
            THEN MAP {'causal': 5}
        WHEN regexp_matches(name, '^aten::_scaled_dot_product_(efficient|cudnn)_attention$')
            THEN MAP {'causal': 7}
        WHEN regexp_matches(name, '^aten::(scaled_dot_product_attention|_scaled_dot_product_attention_math)$')
            THEN MAP {'causal': 6}
        WHEN regexp_matches(name, '^aten::(_flash|_scaled_dot_product_(flash|efficient))_attention_backward$')
            THEN MAP {'causal': 12}
        WHEN regexp_matches(name, '^aten::(_efficient|_scaled_dot_product_cudnn)_attention_backward$')
            THEN MAP {'causal': 15}
    END AS setting
FROM (SELECT DISTINCT name, work, traits FROM slice_label WHERE kind = 'cpu_op' AND work IS NOT NULL)
