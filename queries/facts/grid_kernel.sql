-- fact: The least bytes of other kernels of PyTorch whose grids tell them.
-- into: kernel_bound
-- of: unworked_kernel
-- when: kind = 'kernel' AND regexp_matches(name,
--     'multi_tensor_apply_kernel|CatArrayBatchedCopy_aligned16_contig|' ||
--     'indexing_backward_kernel|vectorized_gather_kernel')
-- scope: all
-- multi_tensor_apply_kernel: a block for each chunk of 65,536 elements of each tensor, of which a launch has
-- at most 110, or fewer if it takes several lists: all chunks but one of each tensor are full. Each list is
-- read or written. So it is in apex, too.
-- https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/cuda/MultiTensorApply.cuh
-- https://github.com/NVIDIA/apex/blob/master/csrc/multi_tensor_apply.cuh
-- CatArrayBatchedCopy_aligned16_contig: along x, as many threads as the largest input has pieces of 16 bytes,
-- or fewer: the device's SMs set a limit. Of each further input along y, at least one element is copied.
-- https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/cuda/Shape.cu
-- indexing_backward_kernel: along x, as many indices as the block's y in each block, and along z the slices
-- before the index: of each, at least a value is read.
-- https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/cuda/Indexing.cu
-- vectorized_gather_kernel: along x, as many blocks as rows, and along y as the largest block and its vectors
-- need for a row; what it reads may repeat and come from a cache.
-- https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/cuda/IndexKernelUtils.cu
WITH launch AS (
    SELECT trace_id, event_id, u.name, TRY_CAST(grid AS DOUBLE[]) AS blocks,
           TRY_CAST(args->>'block' AS DOUBLE[]) AS threads,
           list_min(list_transform(regexp_extract_all(regexp_extract(u.name, '<.*>'),
               '\b(c10::BFloat16|c10::Half|float|double|bool|unsigned char)\b'),
               lambda type: element_bytes(type))) AS size
    FROM unworked_kernel JOIN gpu_ops AS u USING (trace_id, event_id)
    JOIN event_row USING (trace_id, event_id)
    -- AMD's grids count blocks or threads.
    WHERE blocks_per_sm IS NOT NULL AND regexp_matches(u.name,
        'multi_tensor_apply_kernel|CatArrayBatchedCopy_aligned16_contig|' ||
        'indexing_backward_kernel|vectorized_gather_kernel')
),
moved AS (
    SELECT *, regexp_extract(name, 'TensorList(?:ScalarList)?Metadata<(?:\w+, )?(\d)>', 1) AS told,
           TRY_CAST(told AS INTEGER) AS lists, [110, 64, 48, 36, 30][lists] AS tensors,
           TRY_CAST(regexp_extract(name, 'vectorized_gather_kernel<(\d+)', 1) AS DOUBLE) AS vector,
           CASE WHEN contains(name, 'multi_tensor_apply_kernel')
                   THEN lists * size * (greatest(blocks[1] - tensors, 0) * thresholds().elements_of_a_chunk
                       + blocks[1])
               WHEN contains(name, 'CatArrayBatchedCopy')
                   THEN 2 * ((blocks[1] - 1) * threads[1] * 16 + blocks[2] * size)
               WHEN contains(name, 'vectorized_gather_kernel')
                   THEN blocks[1] * ((blocks[2] - 1) * threads[1] + 1) * vector
               ELSE ((blocks[1] - 1) * threads[2] + 1) * blocks[3] * size END AS bytes
    FROM launch
)
SELECT trace_id, event_id, 'grid', FALSE, NULL, 0, bytes, 0 FROM moved WHERE bytes > 0 AND isfinite(bytes)
