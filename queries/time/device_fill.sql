-- question: How much of the compute kernels' time is in grids that are too small to fill the device?
-- since: 0.1
-- columns device_id
-- column fill (text): SMs without a block: fewer blocks than SMs; part of a wave: each SM has a block and
--     could hold more; one wave: exactly full; several waves: more blocks than fit at once; each SM has a
--     block: the number that it could hold is unknown; unknown: the trace lacks the grid
-- column launches (count): compute kernels; those that communicate use few SMs by design and are left out
-- columns total_ns
-- column share_of_kernel_time (fraction of summed time in compute kernels): total_ns over that of all of them
-- column empty_ns (ns): the part of total_ns in which slots for blocks would be empty if all blocks took
--     equally long: 1 - waves / (waves, rounded up) of each kernel's time; NULL: unknown. Not all of it is a
--     loss: a few blocks can keep memory busy
-- doubts: no_gpu_ops, absurd_duration
WITH filled AS (
    SELECT *, CASE WHEN blocks < sm_count THEN 'SMs without a block' WHEN waves < 1 THEN 'part of a wave'
        WHEN waves = 1 THEN 'one wave' WHEN waves > 1 THEN 'several waves'
        WHEN blocks >= sm_count THEN 'each SM has a block' ELSE 'unknown' END AS fill
    FROM kernel_grids WHERE class <> 'communication'
)
SELECT trace_id, device_id, fill, sum(count)::BIGINT AS launches, sum(total_ns)::BIGINT AS total_ns,
       sum(total_ns) / nullif(sum(sum(total_ns)) OVER (PARTITION BY trace_id, device_id), 0)
           AS share_of_kernel_time,
       round(sum(total_ns * (1 - waves / ceil(waves))))::BIGINT AS empty_ns
FROM filled
GROUP BY trace_id, device_id, fill
ORDER BY trace_id, device_id, total_ns DESC, fill
