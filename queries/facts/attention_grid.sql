-- fact: The least work of FlashAttention's forward pass, by its grid and template arguments.
-- into: kernel_bound
-- of: unworked_kernel
-- when: contains(name, 'flash_fwd_kernel<')
-- scope: all
-- The grid has a block for each so many queries of the second template argument, for each sequence and each
-- head. The first argument is the length of a head, if the sixth flag says so; else that is longer than the
-- next smaller one of those that there are. If the fifth flag says that blocks are full, sequences are
-- equally long; else one of them is known to reach the last block. Queries are read and results are written;
-- of the keys at least one.
-- https://github.com/Dao-AILab/flash-attention/blob/v2.5.9/csrc/flash_attn/src/flash_fwd_launch_template.h
-- https://github.com/Dao-AILab/flash-attention/blob/v2.5.9/csrc/flash_attn/src/static_switch.h
WITH name AS (
    SELECT label_id, format, regexp_extract(name,
               'flash_fwd_kernel<.*?Flash_fwd_kernel_traits<(\d+), (\d+), \d+, \d+, \w+, \w+, cutlass::.*?> '
               || '>, \w+, \w+, \w+, \w+, (\w+), (\w+), \w+',
               ['head', 'queries', 'is_even', 'is_whole']) AS told,
           TRY_CAST(told['head'] AS DOUBLE) AS head, TRY_CAST(told['queries'] AS DOUBLE) AS queries,
           if(told['is_whole'] = 'true', head,
               list_max(list_filter([0, 32, 64, 96, 128, 160, 192], lambda n: n < head)) + 1) AS least_head
    FROM slice_label WHERE kind = 'kernel' AND contains(name, 'flash_fwd_kernel<')
),
launch AS (
    SELECT trace_id, event_id, format, blocks[3] * least_head * if(told['is_even'] = 'true',
               blocks[1] * queries * blocks[2], (blocks[1] - 1) * queries + 1) AS read
    FROM (SELECT trace_id, event_id, name.*, TRY_CAST(grid AS DOUBLE[]) AS blocks
        FROM unworked_kernel JOIN gpu_ops USING (trace_id, event_id) JOIN name USING (label_id)
        WHERE blocks_per_sm IS NOT NULL)
)
SELECT trace_id, event_id, 'grid', TRUE, format, 4 * read, 2 * 2 * read, 0
FROM launch WHERE read > 0 AND isfinite(read)
