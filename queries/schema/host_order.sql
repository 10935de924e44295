-- The rows that the walk of the stack reads, sorted by thread, by start, longer slices first, outer kinds
-- first, then by position in the file. Each thread begins with a row that spans all of its time and has no
-- event. A launch that blocks is followed by one more row for each of its GPU ops: it is a copy, whatever its
-- name. A device's wait lasts until its launch; its row has an index instead of an event. The sorted rows are
-- narrow, since they may not fit in memory: `ranked` packs kind, event, activity and flags into one number.
-- tracekit/native/walk_codes.py defines its layout, kinds and flags for this query ($...) and for
-- tracekit/native/src/nesting.c, which unpacks it.
WITH names AS (
    SELECT
        label_id, activity,
        (CASE kind WHEN 'annotation' THEN $annotation_kind WHEN 'python' THEN $python_kind
                   WHEN 'cpu_op' THEN $cpu_op_kind ELSE $call_kind END::BIGINT << $kind_shift)
        | CASE WHEN kind = 'cpu_op' THEN $op_flag ELSE 0 END
        | CASE WHEN kind = 'python' THEN $python_flag ELSE 0 END
        | CASE WHEN has(traits, 'module') THEN $module_flag ELSE 0 END
        | CASE WHEN has(traits, 'source_line') AND NOT has(traits, 'library') THEN $line_flag ELSE 0 END
        | CASE WHEN activity IN ('input', 'compilation') THEN $covering_flag ELSE 0 END AS ranked
    FROM slice_label WHERE activity IS NOT NULL
),
-- Operators that compute on the host beside a device: long ones that launch nothing.
long_operator AS (
    SELECT trace_id, event_id, pid, tid, start_ns, end_ns FROM slices
    WHERE label_id IN (
        SELECT label_id FROM slice_label WHERE kind = 'cpu_op'
            AND (starts_with(name, 'aten::') AND work IS NOT NULL OR has(traits, 'computing')))
      AND dur_ns > thresholds().long_host_work_ns
      AND trace_id IN (SELECT trace_id FROM gpu_ops WHERE launch_id IS NOT NULL)
),
-- Gradients and updates of parameters are no input.
learning AS (
    SELECT trace_id, pid, tid, start_ns, end_ns FROM slices WHERE label_id IN (SELECT label_id
        FROM slice_label WHERE list_has_any(traits, ['autograd_node', 'optimizer_step']))
),
computing AS (
    SELECT o.trace_id, o.event_id
    FROM long_operator AS o ASOF LEFT JOIN launches AS l
      ON o.trace_id = l.trace_id AND o.pid = l.pid AND o.tid = l.tid AND o.start_ns <= l.start_ns
    ASOF LEFT JOIN learning AS g
      ON o.trace_id = g.trace_id AND o.pid = g.pid AND o.tid = g.tid AND o.start_ns >= g.start_ns
    WHERE (l.start_ns < o.end_ns) IS NOT TRUE AND (o.start_ns < g.end_ns) IS NOT TRUE
),
-- Activities that a slice's name does not tell. Usually, the host computes values that the device then gets.
unnamed AS (
    SELECT trace_id, event_id, 'input' AS activity, 0 AS flag FROM computing
    UNION ALL
    SELECT DISTINCT trace_id, event_id, 'compilation', $covering_flag
    FROM capture_calls WHERE operator IS NOT NULL
),
slice AS (
    SELECT t.thread, s.start_ns, s.end_ns,
           n.ranked | coalesce(u.flag, 0) | (s.event_id << $id_shift)
           | (enum_code(coalesce(u.activity, n.activity)::host_activity)::BIGINT << $activity_shift)
           AS ranked, label_id
    FROM slices AS s JOIN names AS n USING (label_id)
    JOIN host_thread AS t USING (trace_id, pid, tid)
    LEFT JOIN unnamed AS u ON s.trace_id = u.trace_id AND s.event_id = u.event_id
    UNION ALL
    SELECT t.thread, launch_start_ns, launch_end_ns,
           ($copy_kind::BIGINT << $kind_shift) | (launch_id << $id_shift)
           | (enum_code('copy'::host_activity)::BIGINT << $activity_shift), -1
    FROM gpu_ops JOIN host_thread AS t USING (trace_id, pid, tid) WHERE is_blocking
    UNION ALL
    SELECT t.thread, gap.start_ns - clock_ns, gap.launch_start_ns - clock_ns,
           ($wait_kind::BIGINT << $kind_shift) | (gap.place << $id_shift), -1
    FROM _scratch.gap AS gap JOIN gpu_ops AS l ON gap.trace_id = l.trace_id AND gap.op_id = l.event_id
    JOIN host_thread AS t ON l.trace_id = t.trace_id AND l.pid = t.pid AND l.tid = t.tid
    WHERE idle_class = 'host_late' AND is_late
    UNION ALL
    SELECT thread, start_ns, end_ns,
           $thread_kind * (1::BIGINT << $kind_shift)
           | (enum_code('untraced'::host_activity)::BIGINT << $activity_shift), -1
    FROM host_thread
)
SELECT thread, start_ns, end_ns, ranked, label_id
FROM slice ORDER BY thread, start_ns, end_ns DESC, ranked
