-- question: Which tiny copies or fills follow each other at one call site, so that one could do for all?
-- since: 0.1
-- title: Batch small copies and fills into one
-- causes: launch, dispatch, python, copy, latency
-- frameworks: PyTorch
-- when: kind IN ('memcpy', 'memset'); (SELECT count(*) >= thresholds().fewest_batched FROM gpu_ops
--     WHERE copy_kind IN ('HtoD', 'DtoD', 'memset') AND bytes <= thresholds().tiny_copy_bytes)
-- needs: The values are known together: pack them on the host, copy once, and take views on the device.
-- caveat: The time to pack the values on the host is not counted.
-- blind: no_runtime_calls
-- before:
--     lengths = [torch.tensor(each, device="cuda") for each in lengths]     # a copy each
-- after:
--     packed = torch.tensor(lengths, pin_memory=True)
--     lengths = packed.to("cuda", non_blocking=True).unbind()               # one copy
-- risks: Copies on the device go with torch._foreach_copy_. Views keep the whole packed tensor in memory. For
--     fills, one large buffer has to hold all the tensors, or `torch._foreach_zero_` fills them in a few
--     launches.
-- check: tracekit query after.json copies; tracekit diff before.json after.json
-- sources: https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/#data-transfer-between-host-and-device
--     https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html
-- doubts: no_gpu_ops, no_runtime_calls, no_stacks, unlinked_gpu_ops
-- A run of copies ends where its thread launches something else.
WITH few AS (
    SELECT c.trace_id, c.launch_id AS event_id, c.launch_id, c.pid, c.tid, c.start_ns AS launch_start_ns,
           c.end_ns AS launch_end_ns, op.event_id AS op_id, op.device_id, op.stream,
           if(copy_kind = 'memset', 'fill', copy_kind) AS kind, bytes, op.start_ns, op.dur_ns,
           c.gpu_ops - row_number() OVER (PARTITION BY c.trace_id, c.pid, c.tid, copy_kind
               ORDER BY c.start_ns, op.event_id) AS run
    FROM gpu_ops AS op JOIN launch_call AS c ON op.trace_id = c.trace_id AND op.launch_id = c.launch_id
    -- The remedy ddp_copies is about these.
    ASOF LEFT JOIN ddp_copies AS d
      ON c.trace_id = d.trace_id AND c.pid = d.pid AND c.tid = d.tid AND c.start_ns >= d.start_ns
    WHERE copy_kind IN ('HtoD', 'DtoD', 'memset') AND bytes <= thresholds().tiny_copy_bytes
        AND NOT c.is_graph AND is_asked(op.trace_id) AND (c.start_ns < d.end_ns) IS NOT TRUE
),
copy AS (
    FROM few
    QUALIFY count(*) OVER (PARTITION BY trace_id, pid, tid, kind, run) >= thresholds().fewest_batched
),
at_place AS MATERIALIZED (FROM copy LEFT JOIN call_site USING (trace_id, event_id)),
-- The operators whose only work is to copy, with everything that they call.
copying AS (
    SELECT trace_id, event_id, pid, tid, name, start_ns, end_ns FROM slices
    WHERE has(traits, 'moves_or_fills') AND trace_id IN (SELECT trace_id FROM at_place)
    QUALIFY is_outermost((trace_id, pid, tid), start_ns, end_ns)
),
within AS (
    SELECT c.*,
           CASE WHEN launch_start_ns < o.end_ns AND count(*) OVER (PARTITION BY c.trace_id, o.event_id) = 1
               THEN o END AS around,
           row_number() OVER (whole ORDER BY launch_start_ns, op_id) AS number, count(*) OVER whole AS count,
           min(c.dur_ns) OVER whole AS least_ns, max(c.bytes) OVER whole AS most_bytes
    FROM at_place AS c ASOF LEFT JOIN copying AS o
      ON c.trace_id = o.trace_id AND c.pid = o.pid AND c.tid = o.tid AND c.launch_start_ns >= o.start_ns
    WINDOW whole AS (PARTITION BY c.trace_id, c.pid, c.tid, c.kind, run, place, device_id, stream)
),
spare AS (
    SELECT *, kind || ', ' || max(most_bytes) OVER (PARTITION BY trace_id, place, kind) || ' bytes at most'
        AS detail
    FROM within WHERE count >= thresholds().fewest_batched AND number > 1
        -- Users cannot change code that a compiler wrote.
        AND replace(place, 'autograd::engine::evaluate_function: ', '') NOT IN (
            SELECT name FROM slice_label WHERE kind = 'cpu_op' AND compiled IS NOT NULL)
)
SELECT trace_id, place, detail, 'host' AS target, coalesce(around.event_id, launch_id) AS event_id, pid, tid,
       coalesce(around.start_ns, launch_start_ns) AS start_ns,
       coalesce(around.end_ns, launch_end_ns) - coalesce(around.start_ns, launch_start_ns) AS dur_ns,
       0 AS factor
FROM spare
UNION ALL
-- Its time beyond the shortest is the time of its bytes.
SELECT trace_id, place, detail, 'op', op_id, pid, tid, start_ns, dur_ns, (dur_ns - least_ns) / dur_ns
FROM spare WHERE dur_ns > 0
