-- question: Which lines of Python take the time, on the host and on the GPU?
-- since: 0.1
-- params top
-- columns python_line
-- column called (text): the built-in function, or function of a library, that the line calls and the other
--     columns are about; NULL: the line's own function
-- column line_from (text): call (the host ran it), or as module_from: calls counts replays that ran it
-- columns calls, host_ns
-- column self_ns (ns): host_ns without called frames, operators and runtime calls
-- columns gpu_ops
-- column gpu_ns (ns): duration of these GPU ops: a replay's kernels count for the lines that launched the
--     graph and, in separate rows, for the innermost line of each kernel
-- column gpu_idle_ns (ns): time during which the GPU waited while this frame was the innermost slice
-- doubts: no_stacks, unlinked_gpu_ops
WITH frame AS (
    SELECT f.*, coalesce(l.name, frame_name(f.name)) AS python_line,
           CASE WHEN s.line_id <> event_id THEN frame_name(f.name) END AS called
    FROM python_frames AS f LEFT JOIN thread_slice AS s USING (trace_id, event_id)
    LEFT JOIN slice_label AS l ON s.line_id IS NOT NULL AND s.place_label = l.label_id
    WHERE NOT is_module AND is_asked(trace_id)
),
outer_frame AS (
    FROM frame QUALIFY is_outermost((trace_id, pid, tid, python_line, called), start_ns, end_ns)),
inclusive AS (
    SELECT trace_id, python_line, called, sum(dur_ns)::BIGINT AS host_ns, sum(gpu_ops)::BIGINT AS gpu_ops,
           sum(gpu_ns)::BIGINT AS gpu_ns
    FROM launched_inside('outer_frame') GROUP BY ALL
),
own AS (
    SELECT trace_id, python_line, called, count(*) AS calls, coalesce(sum(self_ns), 0)::BIGINT AS self_ns,
           coalesce(sum(gpu_idle_ns), 0)::BIGINT AS gpu_idle_ns
    FROM frame JOIN thread_slice USING (trace_id, event_id) LEFT JOIN gpu_waits USING (trace_id, event_id)
    GROUP BY ALL
)
SELECT i.trace_id, i.python_line, i.called, 'call' AS line_from, calls, host_ns, self_ns, gpu_ops, gpu_ns,
       gpu_idle_ns
FROM inclusive AS i JOIN own AS o ON i.trace_id = o.trace_id AND i.python_line = o.python_line
  AND i.called IS NOT DISTINCT FROM o.called
UNION ALL
SELECT trace_id, python_line, NULL, line_from, count(DISTINCT launch_id), NULL, NULL, count(*), sum(dur_ns), 0
FROM graph_site WHERE python_line IS NOT NULL AND is_asked(trace_id)
GROUP BY trace_id, python_line, line_from
ORDER BY self_ns DESC NULLS LAST, gpu_ns DESC, python_line, called, line_from, trace_id
LIMIT coalesce(getvariable('top'), 20)
