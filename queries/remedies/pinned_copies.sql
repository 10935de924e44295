-- question: Which copies hold up the host or the link because host memory is pageable or the call waits?
-- since: 0.1
-- title: Copy from pinned memory, non_blocking=True
-- titled: an input to keep on the device: Keep operators' inputs on the device
-- causes: copy
-- frameworks: PyTorch
-- when: kind = 'memcpy' AND (regexp_matches(name, 'HtoD|(?i:pageable)')
--     OR NOT regexp_matches(name, '[DPHA]to[DPHA]'))
-- needs: Host buffers in pinned memory: from the data loader (pin_memory=True), or allocated once and filled
--     again.
-- caveat: Filling pinned memory costs the host time if no thread of the data loader does it. If the trace has
--     no such copy, it is assumed to run at three quarters of what the card's link allows (12 GB/s by
--     PCIe 3.0, 47 by 5.0); the machine's own link may be slower.
-- before:
--     loader = DataLoader(dataset, batch_size=64, num_workers=4)
--     for images, labels in loader:
--         images = images.to("cuda")
-- after:
--     loader = DataLoader(dataset, batch_size=64, num_workers=4, pin_memory=True)
--     for images, labels in loader:
--         images = images.to("cuda", non_blocking=True)
-- risks: A buffer must not be written again before its copy is done. Wait for a copy to the host with
--     non_blocking=True before you read its values. The operating system loses pinned memory.
-- check: tracekit query after.json copies; tracekit diff before.json after.json
-- sources: https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html
--     https://docs.pytorch.org/docs/stable/notes/cuda.html#use-pinned-memory-buffers
--     https://docs.nvidia.com/cuda/cuda-runtime-api/api-sync-behavior.html
-- column factor (fraction of the time taken): what remains: the call takes as long as a launch, nothing
--     waits, and the copy runs at the rate of the largest pinned copy of its direction, else of the fastest
-- doubts: no_copies, unlinked_gpu_ops, no_stacks
-- The program reads what is copied to it: that the host waits for those copies is another remedy's.
WITH copy AS (
    SELECT trace_id, event_id AS copy_id, device_id, stream, copy_kind, bytes, start_ns, dur_ns,
           host_memory AS memory,
           is_blocking, launch_id AS event_id, pid, tid, launch_start_ns, launch_end_ns
    FROM gpu_ops WHERE copy_kind IN ('HtoD', 'DtoH') AND is_asked(trace_id) AND NOT is_graph
),
at_place AS MATERIALIZED (FROM copy LEFT JOIN call_site USING (trace_id, event_id)),
-- A copy takes a fixed time plus a time by its size: the smallest gives the former, the largest the latter.
pinned AS (
    SELECT trace_id, device_id, copy_kind, arg_max(bytes / dur_ns, (bytes, copy_id)) AS bytes_per_ns,
           greatest(0, arg_min(dur_ns, (bytes, copy_id)) - min(bytes) / bytes_per_ns) AS fixed_ns
    FROM at_place WHERE memory = 'pinned' AND bytes > 0 AND dur_ns > 0
    GROUP BY trace_id, device_id, copy_kind
),
link AS (
    SELECT trace_id, device_id, copy_kind, greatest(max(bytes / dur_ns), coalesce(
               thresholds().host_link_share * any_value(host_link_bytes_per_s),
               thresholds().host_link_bytes_per_s) / 1e9) AS link_bytes_per_ns
    FROM at_place LEFT JOIN device_peaks USING (trace_id, device_id)
    WHERE bytes > 0 AND dur_ns > 0 GROUP BY trace_id, device_id, copy_kind
),
quick AS (
    SELECT trace_id, median(launch_end_ns - launch_start_ns) AS launch_ns FROM gpu_ops
    WHERE kind = 'kernel' AND trace_id IN (SELECT trace_id FROM at_place) GROUP BY ALL
),
-- PyTorch waits for the stream in a copy without non_blocking=True.
-- https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/cuda/Copy.cu (memcpy_and_sync)
synced AS (
    SELECT c.trace_id, copy_id, min(w.start_ns) AS sync_ns, arg_min(w.dur_ns, w.start_ns) AS sync_dur_ns
    FROM at_place AS c JOIN event_row AS o ON c.trace_id = o.trace_id AND c.cpu_op_id = o.event_id
    JOIN (FROM runtime_calls WHERE activity = 'sync') AS w
        ON c.trace_id = w.trace_id AND c.pid = w.pid AND c.tid = w.tid
        AND w.start_ns BETWEEN c.launch_end_ns AND o.ts_ns + o.dur_ns
    WHERE copy_kind = 'HtoD' AND has(op_traits, 'copies')
    GROUP BY ALL
),
-- An operator such as aten::index copies an input that is on the host by itself: its caller cannot say how.
inside AS (
    SELECT s.trace_id, s.event_id, n.name AS operator
    FROM thread_slice AS s JOIN event_row AS o ON s.trace_id = o.trace_id AND s.outer_op_id = o.event_id
    JOIN slice_label AS n USING (label_id)
    WHERE starts_with(n.name, 'aten::') AND NOT has(n.traits, 'copies')
),
slow AS MATERIALIZED (
    SELECT *, launch_end_ns - launch_start_ns AS call_ns,
           concat_ws(', ', 'up to ' || formatReadableDecimalSize(nullif(max(bytes) OVER here, 0)),
               if(bool_or(memory = 'pageable') OVER here, 'pageable memory', 'the call waits'),
               CASE WHEN min(copy_kind) OVER here <> max(copy_kind) OVER here
                   AND min(stream) OVER here <> max(stream) OVER here
                   THEN 'if both directions overlap' END,
               CASE WHEN count(operator) OVER here > 0 THEN 'an input to keep on the device' END) AS detail
    FROM at_place LEFT JOIN synced USING (trace_id, copy_id) LEFT JOIN quick USING (trace_id)
    LEFT JOIN inside USING (trace_id, event_id)
    LEFT JOIN pinned USING (trace_id, device_id, copy_kind)
    LEFT JOIN link USING (trace_id, device_id, copy_kind)
    WHERE memory = 'pageable' OR copy_kind = 'HtoD' AND (is_blocking OR sync_ns IS NOT NULL)
    WINDOW here AS (PARTITION BY trace_id, place)
),
part AS (
    SELECT trace_id, place, detail, 'op' AS target, copy_id AS event_id, pid, tid, start_ns, dur_ns,
           coalesce(bytes / bytes_per_ns + fixed_ns, bytes / link_bytes_per_ns) / nullif(dur_ns, 0) AS factor
    FROM slow WHERE memory = 'pageable'
    UNION ALL
    SELECT trace_id, place, detail, 'host', copy_id, pid, tid, launch_start_ns, call_ns,
           coalesce(launch_ns, thresholds().launch_floor_ns) / nullif(call_ns, 0)
    FROM slow WHERE copy_kind = 'HtoD'
    UNION ALL
    SELECT trace_id, place, detail, 'wait', copy_id, pid, tid, launch_start_ns, call_ns, 0
    FROM slow WHERE copy_kind = 'HtoD' AND is_blocking
    UNION ALL
    SELECT trace_id, place, detail, 'host', copy_id, pid, tid, sync_ns, sync_dur_ns, 0
    FROM slow WHERE sync_ns IS NOT NULL
)
FROM part WHERE factor < 1
