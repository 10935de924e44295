-- How kernels fill a device: blocks, the blocks that an SM holds at once, and waves.

-- The value if it is above 0, else NULL.
CREATE OR REPLACE MACRO positive(value) AS CASE WHEN value > 0 THEN value END;

-- A whole number above 0 and of at most 32 bits from a JSON object; NULL if there is none.
CREATE OR REPLACE MACRO count_of(object, key) AS
    positive(TRY_CAST(object->>key AS INTEGER))::BIGINT;

-- The product of a list of whole numbers in JSON; NULL if it is not above 0.
CREATE OR REPLACE MACRO size_of(extents) AS
    positive(TRY_CAST(list_product(integers_of(extents::VARCHAR)) AS BIGINT));

-- The smallest multiple of `unit` that is not below the value.
CREATE OR REPLACE MACRO rounded_up(value, unit) AS (value + unit - 1) // unit * unit;

-- The most blocks that an SM holds at once, whatever their needs, by compute capability.
-- https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#compute-capabilities
CREATE OR REPLACE MACRO most_blocks_per_sm(capability) AS CASE
    WHEN capability IN ('7.5', '8.6', '8.7') THEN 16
    WHEN capability IN ('8.9', '12.0', '12.1') THEN 24 ELSE 32 END;

-- The kernels of each device by name and launch configuration, with the blocks of the grid, the blocks that
-- an SM holds at once (`resident_blocks`) and the waves in which the grid runs: blocks / (SMs x
-- resident_blocks), Nsight Compute's "waves per SM"
-- (https://docs.nvidia.com/nsight-compute/ProfilingGuide/index.html).
--
-- A grid is known to count blocks only if Kineto also wrote `blocks per SM` (NVIDIA). On AMD it counts
-- blocks or threads, depending on the call that launched the kernel
-- (https://github.com/pytorch/kineto/blob/main/libkineto/src/RoctracerActivityApi.cpp). resident_blocks is
-- Kineto's own number in recent traces. Else it is computed as CUDA's occupancy calculator does
-- (cuda_occupancy.h): limited by warps, by registers (a warp gets a multiple of 256, from one of the four
-- parts of the register file) and by shared memory (since capability 8 with 1 KiB per block for the
-- system). A device that the trace does not list has the properties of the listed ones if they are all the
-- same.
CREATE OR REPLACE MACRO kernel_grids() AS TABLE
WITH launch AS (
    SELECT trace_id, device_id, name, class, grid, block,
           -- As INTEGER, so that no recorded number is too large for the arithmetic below.
           TRY_CAST(registers_per_thread AS INTEGER)::BIGINT AS registers,
           TRY_CAST(shared_memory_bytes AS INTEGER)::BIGINT AS shared_bytes,
           positive(TRY_CAST(args->>'blocks per SM' AS DOUBLE)) AS blocks_per_sm,
           count_of(args, 'est. achieved occupancy %') / 100 AS kineto_occupancy,
           count_of(args->'occupancy', 'activeBlocksPerMultiprocessor') AS kineto_blocks,
           count(*) AS count, sum(dur_ns)::BIGINT AS total_ns, list(event_id) AS kernel_ids
    FROM kernels WHERE trace_id = coalesce(getvariable('trace'), trace_id)
    GROUP BY ALL
),
alike AS (
    SELECT trace_id, any_value(compute_capability) AS capability, any_value(properties) AS properties,
           any_value(sm_count) AS sm_count
    FROM device GROUP BY trace_id HAVING count(DISTINCT name) = 1 AND count(DISTINCT sm_count) = 1
),
sized AS (
    SELECT l.*, CASE WHEN blocks_per_sm > 0 THEN size_of(grid) END AS blocks, size_of(block) AS threads,
           rounded_up(size_of(block), 32) // 32 AS warps,
           positive(coalesce(d.sm_count, a.sm_count)) AS listed_sm_count,
           coalesce(d.compute_capability, a.capability) AS capability,
           coalesce(d.properties, a.properties) AS p
    FROM launch AS l LEFT JOIN device AS d ON l.trace_id = d.trace_id AND l.device_id = d.device_id
    LEFT JOIN alike AS a ON l.trace_id = a.trace_id
),
limits AS (
    SELECT *, positive(coalesce(listed_sm_count, TRY_CAST(round(blocks / blocks_per_sm) AS BIGINT)))
               AS sm_count,
           count_of(p, 'maxThreadsPerMultiprocessor') AS sm_threads,
           count_of(p, 'regsPerMultiprocessor') AS sm_registers,
           count_of(p, 'sharedMemPerMultiprocessor') AS sm_shared_bytes,
           positive(CASE WHEN regexp_matches(capability, '^[1-7]\.') THEN rounded_up(shared_bytes, 256)
               ELSE rounded_up(shared_bytes + 1024, 128) END) AS block_shared_bytes,
           positive(rounded_up(registers * 32, 256)) AS warp_registers
    FROM sized
),
held AS (
    SELECT *, CASE WHEN blocks IS NOT NULL THEN coalesce(kineto_blocks,
               CASE WHEN sm_threads > 0 AND sm_registers > 0 AND sm_shared_bytes > 0 THEN positive(least(
                   most_blocks_per_sm(capability), sm_threads // 32 // warps,
                   4 * (sm_registers // 4 // warp_registers) // warps, sm_shared_bytes // block_shared_bytes
               )) END) END AS resident_blocks
    FROM limits
)
SELECT trace_id, device_id, name, class, grid, block, count, total_ns, blocks, threads, registers,
       shared_bytes, sm_count, resident_blocks, blocks / (sm_count * resident_blocks) AS waves,
       coalesce(least(blocks / sm_count, resident_blocks) * threads / sm_threads, kineto_occupancy)
           AS occupancy, kernel_ids
FROM held;
