-- question: Does each kernel's grid fill the device: blocks, waves, the tail, and occupancy?
-- since: 0.1
-- params top
-- columns device_id, name, class
-- column grid (text): recorded grid size, in blocks (on AMD possibly in threads)
-- column block (text): recorded block size, in threads
-- columns count, total_ns, share_of_kernel_time
-- column blocks (count): blocks in the grid; NULL: unknown (AMD, old traces)
-- column threads (count): threads per block
-- column registers (count): registers per thread
-- column block_memory_bytes (bytes): shared memory per block
-- column sm_count (count): SMs of the device
-- column resident_blocks (count): the blocks that an SM holds at once; NULL: the device's limits are unknown
-- column waves (waves): blocks over sm_count * resident_blocks; below 1 the grid does not fill the device
-- column share_of_sms_without_block (fraction of SMs): SMs that get no block at all
-- column share_of_last_wave_empty (fraction of the last wave's blocks): the tail: the empty part of it
-- column occupancy (fraction of the threads that SMs can hold): the most threads resident at once; computed,
--     or if that is impossible Kineto's estimate (which is 0, here NULL, for kernels with more than 48 KiB of
--     dynamic shared memory)
-- doubts: no_gpu_ops, absurd_duration
-- Waves: https://docs.nvidia.com/nsight-compute/ProfilingGuide/index.html (launch__waves_per_multiprocessor)
-- Tail: https://docs.nvidia.com/deeplearning/performance/dl-performance-gpu-background/index.html
SELECT
    trace_id, device_id, name, class, grid::VARCHAR AS grid, block::VARCHAR AS block, count, total_ns,
    total_ns / nullif(sum(total_ns) OVER (PARTITION BY trace_id, device_id), 0) AS share_of_kernel_time,
    blocks, threads, registers, shared_bytes AS block_memory_bytes, sm_count, resident_blocks, waves,
    1 - least(1, blocks / sm_count) AS share_of_sms_without_block,
    ceil(waves) - waves AS share_of_last_wave_empty, occupancy
FROM kernel_grids
ORDER BY total_ns DESC, name, grid, block, trace_id
LIMIT coalesce(getvariable('top'), 20)
