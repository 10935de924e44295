-- question: What did each device do, and which call launched it?
-- since: 0.1
-- columns event_id, device_id, stream, start_ns, dur_ns, launch_id, pid, tid
-- column launch_start_ns (ns): start of the call
-- column launch_end_ns (ns): end of the call
-- column is_graph (boolean): whether the call launched a graph
-- column is_blocking (boolean): whether the call returned only after the op had ended
-- column captured_pid (id): the process of the captured launch that a replay ran; NULL: none in this trace
-- column captured_tid (id): the captured launch's thread
-- column captured_ns (ns): the captured launch's start
-- doubts: no_gpu_ops, unlinked_gpu_ops, starts_before_launch
SELECT
    op.trace_id, op.event_id, op.device_id, op.stream, op.start_ns, op.dur_ns, op.launch_id, op.pid, op.tid,
    op.launch_start_ns, op.launch_end_ns, op.is_graph, op.is_blocking, c.pid AS captured_pid,
    c.tid AS captured_tid, c.ts_ns AS captured_ns
FROM gpu_ops AS op LEFT JOIN (
    SELECT s.trace_id, s.event_id, e.pid, e.tid, e.ts_ns FROM graph_site AS s JOIN event_row AS e
      ON s.capture_trace_id = e.trace_id AND s.capture_launch_id = e.event_id
    WHERE s.trace_id = s.capture_trace_id
) AS c ON op.trace_id = c.trace_id AND op.event_id = c.event_id
WHERE is_asked(op.trace_id)
ORDER BY op.trace_id, op.device_id, op.stream, op.start_ns, op.event_id
