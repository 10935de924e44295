-- How kernels fill a device: blocks, the blocks that an SM holds at once, and waves.

-- The kernels of each device by name and launch configuration, with the blocks of the grid, the blocks that
-- an SM holds at once (`resident_blocks`) and the waves in which the grid runs: blocks / (SMs x
-- resident_blocks), Nsight Compute's "waves per SM"
-- (https://docs.nvidia.com/nsight-compute/ProfilingGuide/index.html).
--
-- A grid is known to count blocks only if Kineto also wrote `blocks per SM` (NVIDIA). On AMD it counts
-- blocks or threads, depending on the call that launched the kernel
-- (https://github.com/pytorch/kineto/blob/main/libkineto/src/RoctracerActivityApi.cpp). resident_blocks is
-- Kineto's own number in recent traces. Otherwise it is computed as in CUDA's occupancy calculator
-- (cuda_occupancy.h). The limits are warps, registers (a warp gets a multiple of 256, from one of the four
-- parts of the register file) and shared memory (since capability 8, the system takes 1 KiB per block). A
-- device that the trace does not list has the properties of the listed ones if they are all the same.
CREATE OR REPLACE VIEW kernel_grids AS
-- Each kernel's arguments are read once, and their numbers once for each configuration.
WITH configured AS (
    SELECT trace_id, device_id, name, class,
           args->>['grid', 'block', 'registers per thread', 'shared memory', 'blocks per SM',
               'est. achieved occupancy %', '$.occupancy.activeBlocksPerMultiprocessor'] AS configuration,
           count(*) AS count, sum(dur_ns)::BIGINT AS total_ns, list(event_id) AS kernel_ids
    FROM kernels WHERE is_asked(trace_id)
    GROUP BY ALL
),
launch AS (
    SELECT * EXCLUDE configuration, TRY_CAST(configuration[1] AS JSON) AS grid,
           TRY_CAST(configuration[2] AS JSON) AS block,
           -- As INTEGER, so that no recorded number is too large for the arithmetic below.
           TRY_CAST(configuration[3] AS INTEGER)::BIGINT AS registers,
           TRY_CAST(configuration[4] AS INTEGER)::BIGINT AS shared_bytes,
           TRY_CAST(configuration[5] AS DOUBLE) AS blocks_per_sm,
           TRY_CAST(configuration[6] AS INTEGER) AS kineto_percent,
           TRY_CAST(configuration[7] AS INTEGER) AS kineto_blocks
    FROM configured
),
alike AS (
    SELECT trace_id, any_value(compute_capability) AS capability, any_value(properties) AS properties,
           any_value(sm_count) AS sm_count
    FROM device GROUP BY trace_id HAVING count(DISTINCT name) = 1 AND count(DISTINCT sm_count) = 1
),
sized AS (
    SELECT l.*, list_transform([grid, block], lambda extents:
               TRY_CAST(list_product(integers_of(extents::VARCHAR)) AS BIGINT)) AS sizes,
           CASE WHEN blocks_per_sm > 0 AND sizes[1] > 0 THEN sizes[1] END AS blocks,
           CASE WHEN sizes[2] > 0 THEN sizes[2] END AS threads,
           coalesce(d.sm_count, a.sm_count) AS listed_sm_count,
           coalesce(d.compute_capability, a.capability) AS capability,
           from_json(coalesce(d.properties, a.properties), '{"maxThreadsPerMultiprocessor": "INTEGER",
               "regsPerMultiprocessor": "INTEGER", "sharedMemPerMultiprocessor": "INTEGER"}') AS sm
    FROM launch AS l LEFT JOIN device AS d ON l.trace_id = d.trace_id AND l.device_id = d.device_id
    LEFT JOIN alike AS a ON l.trace_id = a.trace_id
),
limits AS (
    SELECT *, CASE WHEN listed_sm_count > 0 THEN listed_sm_count
               ELSE nullif(TRY_CAST(round(blocks / blocks_per_sm) AS BIGINT), 0) END AS sm_count,
           nullif(greatest(sm.maxThreadsPerMultiprocessor, 0), 0)::BIGINT AS sm_threads,
           sm.regsPerMultiprocessor::BIGINT AS sm_registers,
           sm.sharedMemPerMultiprocessor::BIGINT AS sm_shared_bytes,
           (threads + 31) // 32 AS warps, (registers * 32 + 255) // 256 * 256 AS of_warp,
           nullif(greatest(of_warp, 0), 0) AS warp_registers,
           CASE WHEN regexp_matches(capability, '^[1-7]\.') THEN (shared_bytes + 255) // 256 * 256
               ELSE (shared_bytes + 1024 + 127) // 128 * 128 END AS of_block,
           nullif(greatest(of_block, 0), 0) AS block_shared_bytes
    FROM sized
),
held AS (
    SELECT *, CASE WHEN blocks IS NOT NULL AND kineto_blocks > 0 THEN kineto_blocks::BIGINT
               WHEN blocks > 0 AND sm_threads > 0 AND sm_registers > 0 AND sm_shared_bytes > 0
               THEN nullif(greatest(0, least(
                   -- The most blocks that an SM holds at once, whatever their needs.
                   -- https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#compute-capabilities
                   CASE WHEN capability IN ('7.5', '8.6', '8.7') THEN 16
                       WHEN capability IN ('8.9', '12.0', '12.1') THEN 24 ELSE 32 END,
                   sm_threads // 32 // warps, 4 * (sm_registers // 4 // warp_registers) // warps,
                   sm_shared_bytes // block_shared_bytes)), 0) END AS resident_blocks
    FROM limits
)
SELECT trace_id, device_id, name, class, grid, block, count, total_ns, blocks, threads, registers,
       shared_bytes, sm_count, resident_blocks, blocks / (sm_count * resident_blocks) AS waves,
       coalesce(least(blocks / sm_count, resident_blocks) * threads / sm_threads,
           CASE WHEN kineto_percent > 0 THEN kineto_percent / 100 END) AS occupancy, kernel_ids
FROM held;
