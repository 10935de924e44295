-- fact: The call that launched a GPU op: the first runtime or driver event of its correlation, in its trace.
-- needs: slice_label
-- of: gpu_ops
-- Ops without such a call have no row. A correlation is ignored if calls of several processes have it, or if
-- it is 0 on several calls.
CREATE TABLE gpu_op_launch (
    trace_id INTEGER, event_id BIGINT, -- the GPU op
    kind gpu_op_kind, device_id BIGINT, stream BIGINT,
    launch_id       BIGINT,  -- the call; a graph's kernels share their graph launch
    pid BIGINT, tid BIGINT, launch_name VARCHAR, is_graph BOOLEAN, can_be_captured BOOLEAN,
    launch_start_ns BIGINT, launch_end_ns BIGINT,
    launch_delay_ns BIGINT,  -- from the call's start to the op's
    queue_wait_ns   BIGINT,  -- from the call's end to the op's start, at least 0
    is_blocking     BOOLEAN, -- the host continued only after the copy was done
    is_copy_call    BOOLEAN  -- it is known to wait, or the call always does, or it returned late in the copy
);
WITH call AS (
    SELECT
        trace_id, correlation, min(event_id) AS launch_id, min(pid) AS pid, arg_min(tid, event_id) AS tid,
        arg_min(label_id, event_id) AS label_id, arg_min(start_ns, event_id) AS start_ns,
        arg_min(end_ns, event_id) AS end_ns
    FROM runtime_calls SEMI JOIN gpu_ops USING (trace_id, correlation)
    GROUP BY ALL HAVING min(pid) = max(pid) AND (correlation <> 0 OR count(*) = 1)
)
SELECT
    op.trace_id, op.event_id, op.kind, op.device_id, op.stream,
    launch_id, pid, tid, n.name AS launch_name, n.call = 'launch_graph' AS is_graph,
    has(n.traits, 'can_be_captured') AS can_be_captured, call.start_ns AS launch_start_ns,
    call.end_ns AS launch_end_ns, op.start_ns - call.start_ns AS launch_delay_ns,
    greatest(0, op.start_ns - call.end_ns) AS queue_wait_ns,
    op.kind = 'memcpy' AND call.end_ns >= op.end_ns AS is_blocking,
    is_blocking OR n.activity = 'copy' OR op.kind = 'memcpy' AND call.end_ns - op.start_ns > op.dur_ns / 2
        AS is_copy_call
FROM gpu_ops AS op JOIN call USING (trace_id, correlation) JOIN slice_label AS n ON call.label_id = n.label_id
