-- How much the numbers of rows that are added to a database grow: those of host_thread, thread_segment and
-- gpu_timeline, which number the rows of all traces.
SELECT
    (SELECT coalesce(max(thread), 0) FROM host_thread) AS thread,
    (SELECT coalesce(max(segment) + 1, 0) FROM thread_segment) AS segment,
    -- One for each start and end of an op, and of each device's timeline (device_interval).
    (SELECT 2 * count(*) + 2 * count(DISTINCT (trace_id, device_id)) FROM gpu_ops) AS place
