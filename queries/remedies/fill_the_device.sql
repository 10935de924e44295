-- question: Which products, convolutions and attention leave much of the device without work?
-- since: 0.1
-- title: Launch enough blocks to fill the device
-- causes: latency, math
-- when: class IN ('gemm', 'convolution', 'attention'); (SELECT count(*) > 0 FROM gpu_ops
--     WHERE blocks_per_sm > 0 AND class IN ('gemm', 'convolution', 'attention')
--         AND dur_ns > thresholds().launch_floor_ns)
-- effort: medium
-- needs: More work for each launch (a larger batch), or the same work in more blocks: split-K products, split
--     attention, persistent kernels, another algorithm of a convolution.
-- caveat: An upper bound: it assumes that every SM works all the time, up to the device's peaks. With a
--     larger batch the gain is throughput, not a shorter step. Work of other streams beside these kernels is
--     not counted.
-- before:
--     for image in images:
--         outputs.append(model(image[None]))      # a batch of 1 fills few SMs
-- after:
--     outputs = model(torch.stack(images))
--
--     # Products of few rows and columns but long sums: kernels that split the sum.
--     torch._inductor.config.max_autotune_gemm = True
--     model = torch.compile(model, mode="max-autotune")
--
--     torch.backends.cudnn.benchmark = True       # convolutions: cuDNN tries its algorithms once
-- risks: A larger batch takes more memory, and in training it may need another learning rate. Split sums are
--     added in another order, so results differ in the last bits.
-- check: tracekit query after.json kernel_grids; tracekit diff before.json after.json
-- sources: https://docs.nvidia.com/deeplearning/performance/dl-performance-gpu-background/index.html
--     https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/index.html
--     https://arxiv.org/abs/2301.03598
-- doubts: no_gpu_ops, absurd_duration, no_stacks
-- Grids of fewer blocks than SMs, or of few waves whose last is nearly empty, whose work can be cut otherwise
-- or grows with the batch. Kernels shorter than a launch do not gain from blocks.
WITH grid AS (
    SELECT *, regexp_extract(name, '^(void )?([^<(]+)', 2) AS short_name,
           CASE WHEN blocks < sm_count THEN blocks / sm_count
               WHEN waves > 1 THEN waves / ceil(waves) END AS filled
    FROM kernel_grids
    WHERE class IN ('gemm', 'convolution', 'attention') AND filled <= 1 - thresholds().unfilled_share
        AND name NOT IN (SELECT name FROM gpu_op_name WHERE has(traits, 'split_k_sum'))
),
kernel AS (
    SELECT k.trace_id, k.event_id AS gpu_op_id, k.launch_id AS event_id, k.start_ns, k.dur_ns, short_name,
           CASE WHEN blocks < sm_count THEN blocks || ' blocks on ' || sm_count || ' SMs: '
               ELSE round(waves, 2) || ' waves: ' END || short_name AS told,
           -- Blocks do not help against what disturbed a kernel.
           least(usual_ns, k.dur_ns) AS alone_ns,
           alone_ns * (1 - greatest(filled, thresholds().launch_floor_ns / alone_ns,
               least(1, coalesce(least_ns, 0) / alone_ns))) AS ns,
           1 - ns / k.dur_ns AS factor
    FROM (SELECT *, unnest(kernel_ids) AS kernel_id FROM grid) AS g
    JOIN gpu_ops AS k ON g.trace_id = k.trace_id AND g.kernel_id = k.event_id
    LEFT JOIN uneven_product AS u ON k.trace_id = u.trace_id AND k.event_id = u.event_id
    LEFT JOIN (SELECT trace_id, event_id, least_ns FROM op_limit) AS l
      ON k.trace_id = l.trace_id AND k.event_id = l.event_id
    WHERE alone_ns > thresholds().launch_floor_ns
),
-- A kernel that was launched before the recording belongs where its name does.
at_place AS (
    SELECT * REPLACE (
        coalesce(place, min(place) OVER (PARTITION BY trace_id, short_name), short_name) AS place)
    FROM placed_ops('kernel')
)
SELECT trace_id, place, detail, 'op' AS target, gpu_op_id AS event_id, NULL AS pid, NULL AS tid, start_ns,
       dur_ns, factor
FROM detailed('at_place')
