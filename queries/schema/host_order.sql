-- The slices of the host in the order in which a stack takes them: thread by thread, by start, the longer
-- first, then the kind that is the outer one, then the earlier in the file. Each thread begins with a slice
-- of no event that spans all of its time. A launch of GPU ops comes once more behind itself, for each op:
-- one that blocks is a copy, whatever its name. A wait of a device for its launch lasts until then; it has a
-- place instead of an event.
-- What is sorted is narrow, since it may not fit in memory: `ranked` is kind, event, activity and flags in
-- one number. tracekit/native/ranks.py says where each begins and which kinds and flags there are: to this
-- query ($...) and to tracekit/native/src/nesting.c, which takes the number apart.
WITH names AS (
    SELECT
        label_id,
        (CASE kind WHEN 'annotation' THEN $annotation_kind WHEN 'python' THEN $python_kind
                   WHEN 'cpu_op' THEN $cpu_op_kind ELSE $call_kind END::BIGINT << $kind_shift)
        | (enum_code(activity)::BIGINT << $activity_shift)
        | CASE WHEN kind = 'cpu_op' THEN $op_flag ELSE 0 END
        | CASE WHEN kind = 'python' THEN $python_flag ELSE 0 END
        | CASE WHEN kind = 'python' AND is_module_frame(name) THEN $module_flag ELSE 0 END
        | CASE WHEN activity IN ('input', 'compilation') THEN $covering_flag ELSE 0 END AS ranked
    FROM slice_label WHERE activity IS NOT NULL
),
slice AS (
    SELECT t.thread, s.start_ns, s.end_ns, n.ranked | (s.event_id << $id_shift) AS ranked
    FROM slices AS s JOIN names AS n USING (label_id)
    JOIN host_thread AS t USING (trace_id, pid, tid)
    UNION ALL
    SELECT t.thread, launch_start_ns, launch_end_ns,
           ($launch_kind::BIGINT << $kind_shift) | (launch_id << $id_shift)
           | CASE WHEN is_blocking
                  THEN (enum_code('copy'::host_activity)::BIGINT << $activity_shift) | $op_flag ELSE 0 END
    FROM gpu_op_launch JOIN host_thread AS t USING (trace_id, pid, tid)
    UNION ALL
    SELECT t.thread, gap.start_ns, gap.launch_start_ns,
           ($wait_kind::BIGINT << $kind_shift) | (gap.place << $id_shift)
    FROM scratch.gap AS gap JOIN gpu_op_launch AS l ON gap.trace_id = l.trace_id AND gap.op_id = l.event_id
    JOIN host_thread AS t ON l.trace_id = t.trace_id AND l.pid = t.pid AND l.tid = t.tid
    WHERE idle_class = 'host_late'
    UNION ALL
    SELECT thread, start_ns, end_ns,
           $thread_kind * (1::BIGINT << $kind_shift)
           | (enum_code('untraced'::host_activity)::BIGINT << $activity_shift)
    FROM host_thread
)
SELECT thread, start_ns, end_ns, ranked
FROM slice ORDER BY thread, start_ns, end_ns DESC, ranked
