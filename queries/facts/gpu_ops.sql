-- fact: An operation that a device executed.
-- needs: slice_label
-- when: kind IN ('kernel', 'memcpy', 'memset')
-- An event is a GPU op by its category; having a stream is not enough.
CREATE TABLE gpu_ops (
    trace_id INTEGER, event_id BIGINT, -- the event
    kind gpu_op_kind,
    activity device_activity, -- the device's activity
    class    gpu_op_class,    -- a kernel's class, else the kind
    name VARCHAR, device_id BIGINT, stream BIGINT, start_ns BIGINT, end_ns BIGINT, dur_ns BIGINT,
    correlation BIGINT, external_id BIGINT, label_id BIGINT,
    copy_kind VARCHAR,        -- for a copy: HtoD, DtoH, DtoD, PtoP ...; memset; NULL: a kernel
    bytes    BIGINT,          -- bytes that a copy or fill moves
    grid     VARCHAR,         -- a kernel's, as the trace has it
    blocks_per_sm DOUBLE      -- of it; NVIDIA's alone
);
SELECT
    trace_id, event_id, kind::gpu_op_kind AS kind,
    CASE WHEN kind <> 'kernel' THEN 'copy' WHEN class = 'communication' THEN 'communication'
         ELSE 'compute' END::device_activity AS activity,
    coalesce(class, kind)::gpu_op_class AS class,
    name, coalesce(device_id, pid) AS device_id, coalesce(stream, tid) AS stream, start_ns, end_ns, dur_ns,
    correlation, external_id, label_id,
    CASE kind WHEN 'memset' THEN 'memset' WHEN 'memcpy' THEN
        coalesce(nullif(regexp_extract(name, '(HtoD|DtoH|DtoD|PtoP|HtoH|AtoA|AtoH|HtoA|AtoD|DtoA)', 1), ''),
                 args->>'kind', args->>'direction', 'other') END AS copy_kind,
    CASE kind WHEN 'memset' THEN TRY_CAST(args->>'bytes' AS BIGINT) WHEN 'memcpy' THEN
        coalesce(TRY_CAST(args->>'bytes' AS BIGINT), TRY_CAST(args->>'size' AS BIGINT)) END AS bytes,
    CASE kind WHEN 'kernel' THEN args->>'grid' END AS grid,
    CASE kind WHEN 'kernel' THEN TRY_CAST(args->>'blocks per SM' AS DOUBLE) END AS blocks_per_sm
FROM slices WHERE kind IN ('kernel', 'memcpy', 'memset')
