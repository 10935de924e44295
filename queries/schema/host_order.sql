-- The slices of the host in the order in which a stack takes them: thread by thread, by start, the longer
-- first, then the kind that is the outer one, then the earlier in the file. Each thread begins with a slice
-- of no event (kind -1) that spans all of its time. What is sorted is narrow, since it may not fit in memory:
-- `ranked` is kind << 60 | event_id << 12 | activity << 4 | flags, as tracekit/native/nesting.c takes it
-- apart. A launch of GPU ops comes once more behind itself, for each op, with kind 4: one that blocks is a
-- copy, whatever its name. A wait of a device for its launch, with kind 5, lasts until then; it has a place
-- instead of an event.
WITH names AS (
    SELECT
        label_id,
        (CASE kind WHEN 'annotation' THEN 0 WHEN 'python' THEN 1 WHEN 'cpu_op' THEN 2
            ELSE 3 END::BIGINT << 60)
        | (enum_code(activity)::BIGINT << 4)
        | CASE WHEN kind = 'cpu_op' THEN 1 ELSE 0 END
        | CASE WHEN kind = 'python' THEN 2 ELSE 0 END
        | CASE WHEN kind = 'python' AND is_module_frame(name) THEN 4 ELSE 0 END
        | CASE WHEN activity IN ('input', 'compilation') THEN 8 ELSE 0 END AS ranked
    FROM slice_label WHERE activity IS NOT NULL
),
slice AS (
    SELECT t.thread, s.start_ns, s.end_ns, n.ranked | (s.event_id << 12) AS ranked
    FROM slices AS s JOIN names AS n USING (label_id)
    JOIN host_thread AS t USING (trace_id, pid, tid)
    UNION ALL
    SELECT t.thread, launch_start_ns, launch_end_ns,
           (4::BIGINT << 60) | (launch_id << 12) | CASE
               WHEN is_blocking THEN (enum_code('copy'::host_activity)::BIGINT << 4) | 1 ELSE 0 END
    FROM gpu_op_link JOIN host_thread AS t USING (trace_id, pid, tid)
    UNION ALL
    SELECT t.thread, gap.start_ns, gap.launch_start_ns, (5::BIGINT << 60) | (gap.place << 12)
    FROM scratch.gap AS gap JOIN gpu_op_link AS l ON gap.trace_id = l.trace_id AND gap.op_id = l.event_id
    JOIN host_thread AS t ON l.trace_id = t.trace_id AND l.pid = t.pid AND l.tid = t.tid
    WHERE idle_class = 'host_late'
    UNION ALL
    SELECT thread, start_ns, end_ns, -(1::BIGINT << 60) | (enum_code('untraced'::host_activity)::BIGINT << 4)
    FROM host_thread
)
SELECT thread, start_ns, end_ns, ranked
FROM slice ORDER BY thread, start_ns, end_ns DESC, ranked
