-- Work on devices.

-- Everything that a device executed. An event is a GPU op by its category; having a stream is not enough.
-- This is a table because few events are GPU ops and most queries read them.
CREATE OR REPLACE TABLE gpu_ops AS
SELECT
    trace_id, event_id, kind::gpu_op_kind AS kind,
    CASE WHEN kind <> 'kernel' THEN 'copy' WHEN class = 'communication' THEN 'communication'
         ELSE 'compute' END::device_activity AS activity,
    coalesce(class, kind)::gpu_op_class AS class,
    name, coalesce(device_id, pid) AS device_id, coalesce(stream, tid) AS stream, start_ns, end_ns, dur_ns,
    correlation, external_id
FROM slices WHERE kind IN ('kernel', 'memcpy', 'memset');

-- Kernels by device and class: their number and the sum of their durations.
CREATE OR REPLACE MACRO kernel_time() AS TABLE
SELECT trace_id, device_id, class, count(*) AS count, sum(dur_ns)::BIGINT AS total_ns
FROM gpu_ops WHERE kind = 'kernel' GROUP BY ALL;

-- The devices of each trace, ranked: most kernel time first, ties by most time in GPU ops, then by the
-- smallest number. Whatever reports on a single device of several takes the first.
CREATE OR REPLACE VIEW ranked_devices AS
SELECT trace_id, device_id,
       row_number() OVER (PARTITION BY trace_id
                          ORDER BY sum(dur_ns) FILTER (kind = 'kernel') DESC NULLS LAST, sum(dur_ns) DESC,
                              device_id) AS place
FROM gpu_ops GROUP BY trace_id, device_id;

CREATE OR REPLACE VIEW main_device AS
SELECT trace_id, device_id FROM ranked_devices WHERE place = 1;

CREATE OR REPLACE VIEW kernels AS
SELECT
    o.trace_id, o.event_id, o.name, class, o.device_id, o.stream, start_ns, end_ns, o.dur_ns, o.correlation,
    o.external_id,
    args->'grid' AS grid, args->'block' AS block,
    TRY_CAST(args->>'registers per thread' AS BIGINT) AS registers_per_thread,
    TRY_CAST(args->>'shared memory' AS BIGINT) AS shared_memory_bytes, args
FROM gpu_ops AS o JOIN event_row AS e ON o.trace_id = e.trace_id AND o.event_id = e.event_id
WHERE kind = 'kernel';

CREATE OR REPLACE VIEW memcpys AS
SELECT
    trace_id, event_id, name,
    coalesce(nullif(regexp_extract(name, '(HtoD|DtoH|DtoD|PtoP|HtoH|AtoA|AtoH|HtoA|AtoD|DtoA)', 1), ''),
             args->>'kind', args->>'direction', 'other') AS copy_kind,
    coalesce(device_id, pid) AS device_id, coalesce(stream, tid) AS stream, start_ns, end_ns, dur_ns,
    coalesce(TRY_CAST(args->>'bytes' AS BIGINT), TRY_CAST(args->>'size' AS BIGINT)) AS bytes,
    correlation, external_id
FROM slices WHERE kind = 'memcpy';

CREATE OR REPLACE VIEW memsets AS
SELECT
    trace_id, event_id, name, coalesce(device_id, pid) AS device_id, coalesce(stream, tid) AS stream,
    start_ns, end_ns, dur_ns, TRY_CAST(args->>'bytes' AS BIGINT) AS bytes, correlation, external_id
FROM slices WHERE kind = 'memset';

-- The call that launched an op: the first runtime or driver event of its correlation, in its trace.
-- Ops without such a call have no row. A graph's kernels share their graph launch. A correlation that calls
-- of several processes carry is ignored, as is a correlation of 0 on several calls.
CREATE OR REPLACE TABLE gpu_op_launch AS
WITH call AS (
    SELECT
        trace_id, correlation, min(event_id) AS launch_id, min(pid) AS pid, arg_min(tid, event_id) AS tid,
        arg_min(label_id, event_id) AS label_id, arg_min(start_ns, event_id) AS start_ns,
        arg_min(end_ns, event_id) AS end_ns
    FROM runtime_calls WHERE correlation IS NOT NULL
    GROUP BY ALL HAVING min(pid) = max(pid) AND (correlation <> 0 OR count(*) = 1)
)
SELECT
    op.trace_id, op.event_id, op.kind, op.device_id, op.stream,
    launch_id, pid, tid, n.name AS launch_name, n.call = 'launch_graph' AS is_graph,
    has(n.traits, 'can_be_captured') AS can_be_captured, call.start_ns AS launch_start_ns,
    call.end_ns AS launch_end_ns,
    op.start_ns - call.start_ns AS launch_delay_ns,
    greatest(0, op.start_ns - call.end_ns) AS queue_wait_ns,
    -- The host continued only after the copy was done.
    op.kind = 'memcpy' AND call.end_ns >= op.end_ns AS is_blocking,
    is_blocking OR n.activity = 'copy' AS is_copy_call
FROM gpu_ops AS op JOIN call USING (trace_id, correlation) JOIN slice_label AS n USING (label_id);
