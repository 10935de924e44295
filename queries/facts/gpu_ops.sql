-- fact: An operation that a device executed, with the call that launched it.
-- needs: slice_label
-- of: slice_thread
-- when: kind IN ('kernel', 'memcpy', 'memset', 'host_function')
-- An event is a GPU op by its category; having a stream is not enough. Its launch is the first runtime or
-- driver event of its correlation, in its trace; the columns from `launch_id` on are NULL without one. A
-- correlation is ignored if calls of several processes have it, or if it is 0 on several calls.
-- A function of the host that a stream runs, as in a graph, is an op, too: the device is idle meanwhile.
-- PyTorch may draw a graph's kernels in lanes; their stream has an argument of its own.
-- Recorders write some ops at time 0 (github.com/pytorch/kineto/issues/109): those far from all work of the
-- host are left out if others are near.
CREATE TABLE gpu_ops (
    trace_id INTEGER, event_id BIGINT, -- the event
    kind gpu_op_kind,
    activity device_activity, -- the device's activity
    class    gpu_op_class,    -- a kernel's class, else the kind
    name VARCHAR, device_id BIGINT, stream BIGINT, start_ns BIGINT, end_ns BIGINT, dur_ns BIGINT,
    correlation BIGINT, external_id BIGINT, label_id BIGINT,
    copy_kind VARCHAR,        -- for a copy: HtoD, DtoH, DtoD, PtoP ...; memset; NULL: a kernel
    host_memory VARCHAR,      -- for a copy: pageable, pinned or managed; NULL: unknown, or not the host's
    bytes    BIGINT,          -- bytes that a copy or fill moves
    grid     VARCHAR,         -- a kernel's, as the trace has it
    blocks_per_sm DOUBLE,     -- of it; NVIDIA's alone
    launch_id       BIGINT,   -- the call; a graph's kernels share their graph launch
    pid BIGINT, tid BIGINT, launch_name VARCHAR, is_graph BOOLEAN, can_be_captured BOOLEAN,
    launch_start_ns BIGINT, launch_end_ns BIGINT,
    launch_delay_ns BIGINT,   -- from the call's start to the op's
    queue_wait_ns   BIGINT,   -- from the call's end to the op's start, at least 0
    is_blocking     BOOLEAN,  -- the host continued after the copy, or late in one of pageable memory
    is_copy_call    BOOLEAN   -- it is known to wait, or the call always does, or it returned late in the copy
);
WITH host AS (
    SELECT trace_id, min(start_ns) FILTER (is_host) - thresholds().around_ns AS since_ns,
           max(end_ns) FILTER (is_host) + thresholds().around_ns AS until_ns
    FROM _scratch.slice_thread GROUP BY trace_id
),
near AS (
    FROM host AS h WHERE EXISTS (FROM _scratch.slice_thread AS s WHERE s.trace_id = h.trace_id AND NOT is_host
        AND s.start_ns <= until_ns AND s.end_ns >= since_ns)
),
op AS (
    SELECT
        trace_id, event_id, kind::gpu_op_kind AS kind,
        CASE WHEN kind = 'host_function' THEN kind WHEN kind <> 'kernel' THEN 'copy'
             WHEN class = 'communication' THEN class ELSE 'compute' END::device_activity AS activity,
        coalesce(class, kind)::gpu_op_class AS class,
        name, coalesce(device_id, pid) AS device_id,
        CASE WHEN contains(args, '"original_stream"') THEN TRY_CAST(args->>'original_stream' AS BIGINT)
            ELSE coalesce(stream, tid) END AS stream,
        start_ns, end_ns, dur_ns, correlation, external_id, label_id,
        CASE kind WHEN 'memset' THEN 'memset' WHEN 'memcpy' THEN
            coalesce(nullif(regexp_extract(name, '(HtoD|DtoH|DtoD|PtoP|HtoH|AtoA|AtoH|HtoA|AtoD|DtoA)', 1),
                ''), args->>'copy kind', args->>'kind', args->>'direction', 'other') END AS copy_kind,
        CASE kind WHEN 'memcpy' THEN lower(nullif(regexp_extract(concat_ws(' ', name, args->>'src kind',
            args->>'dst kind'), '(?i)\b(Pageable|Pinned|Managed)\b', 1), '')) END AS host_memory,
        CASE kind WHEN 'memset' THEN TRY_CAST(args->>'bytes' AS BIGINT) WHEN 'memcpy' THEN
            coalesce(TRY_CAST(args->>'bytes' AS BIGINT), TRY_CAST(args->>'size' AS BIGINT)) END AS bytes,
        said[1] AS grid, TRY_CAST(said[2] AS DOUBLE) AS blocks_per_sm
    FROM (
        -- Parses a kernel's arguments once.
        SELECT *, CASE kind WHEN 'kernel' THEN json_extract_string(args, ['grid', 'blocks per SM'])
            END AS said
        FROM slices LEFT JOIN near USING (trace_id)
        WHERE kind IN ('kernel', 'memcpy', 'memset', 'host_function')
            AND (start_ns BETWEEN since_ns AND until_ns) IS NOT FALSE
    )
),
-- The call is joined by its event: an aggregate of each of its columns takes longer.
first_call AS (
    SELECT trace_id, min(event_id) AS event_id FROM runtime_calls WHERE correlation IS NOT NULL
    GROUP BY trace_id, correlation HAVING min(pid) = max(pid) AND (correlation <> 0 OR count(*) = 1)
),
call AS (
    SELECT trace_id, correlation, event_id AS launch_id, pid, tid, label_id, start_ns, end_ns
    FROM runtime_calls SEMI JOIN first_call USING (trace_id, event_id)
)
SELECT
    op.*, launch_id, pid, tid, n.name AS launch_name, n.call = 'launch_graph' AS is_graph,
    has(n.traits, 'can_be_captured') AS can_be_captured, call.start_ns AS launch_start_ns,
    call.end_ns AS launch_end_ns, op.start_ns - call.start_ns AS launch_delay_ns,
    if(launch_id IS NULL, NULL, greatest(0, op.start_ns - call.end_ns)) AS queue_wait_ns,
    -- Calls never wait for copies within devices, even if they return after a short copy has ended. One from
    -- pageable memory returns shortly before its copy ends.
    if(launch_id IS NULL, NULL, op.kind = 'memcpy' AND copy_kind NOT IN ('DtoD', 'PtoP')
        AND (call.end_ns >= op.end_ns
            OR host_memory = 'pageable' AND call.end_ns - op.start_ns > op.dur_ns / 2)) AS is_blocking,
    is_blocking OR n.activity = 'copy' OR if(launch_id IS NULL, NULL,
        op.kind = 'memcpy' AND call.end_ns - op.start_ns > op.dur_ns / 2) AS is_copy_call
FROM op LEFT JOIN call USING (trace_id, correlation)
LEFT JOIN slice_label AS n ON call.label_id = n.label_id
