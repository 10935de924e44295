-- question: Which kernels only change the layout of images for a convolution, and back?
-- since: 0.1
-- title: Keep images in channels_last
-- causes: memory-bandwidth
-- frameworks: PyTorch
-- when: has(traits, 'layout_change')
-- needs: A model whose operators between the convolutions support channels_last too, as norms, activations
--     and pooling do.
-- caveat: Other kernels may get slower or faster in the other layout; only the conversions are counted.
-- before:
--     model = model.to(device)
--     for images, labels in loader:
--         output = model(images.to(device))
-- after:
--     model = model.to(device, memory_format=torch.channels_last)
--     for images, labels in loader:
--         output = model(images.to(device, memory_format=torch.channels_last))
-- risks: view() and reshape() that assume the order of dimensions in memory fail or copy. On AMD, PyTorch
--     hands this layout to MIOpen by default only in recent versions; others need
--     PYTORCH_MIOPEN_SUGGEST_NHWC=1.
-- check: tracekit query after.json top_kernels; tracekit diff before.json after.json
-- sources: https://docs.pytorch.org/tutorials/intermediate/memory_format_tutorial.html
--     https://docs.nvidia.com/deeplearning/performance/dl-performance-convolutional/index.html#tensor-layout
-- doubts: no_gpu_ops, no_stacks, unlinked_gpu_ops
-- cuDNN's nchwToNhwcKernel and nhwcToNchwKernel; MIOpen's batched_transpose_32x32_half:
-- https://github.com/ROCm/MIOpen/blob/develop/src/kernels/gpu_batched_transpose_kernel/batched_transpose.cpp
WITH kernel AS (
    SELECT trace_id, event_id AS gpu_op_id, launch_id AS event_id, start_ns, dur_ns, 0 AS factor,
           dur_ns AS ns, 'op' AS target,
           coalesce(nullif(regexp_extract(name, 'batched_transpose|\w+(?i:nhwc)\w*'), ''), name) AS told
    FROM gpu_ops WHERE kind = 'kernel' AND is_asked(trace_id)
        AND name IN (SELECT name FROM gpu_op_name WHERE has(traits, 'layout_change'))
)
FROM changed_ops('kernel')
