-- question: Which tensors are made or filled on the CPU only to be copied to a device?
-- since: 0.1
-- title: Create tensors on the device
-- causes: input, dispatch, copy
-- frameworks: PyTorch
-- when: has(traits, 'makes_values'); kind = 'memcpy' AND (regexp_matches(name, 'HtoD')
--     OR NOT regexp_matches(name, '[DPHA]to[DPHA]'))
-- needs: Values that do not come from outside the program. Random numbers of the device differ from the CPU's
--     for the same seed.
-- caveat: The device's time to make them is not counted.
-- blind: no_runtime_calls
-- before:
--     noise = torch.randn(shape).to("cuda")
--     mask = torch.zeros(n, n).half().cuda()
-- after:
--     noise = torch.randn(shape, device="cuda")
--     mask = torch.zeros(n, n, device="cuda", dtype=torch.half)
-- risks: The device's memory holds it all the time. If it is the same in every step, make it once.
-- check: tracekit query after.json copies; tracekit diff before.json after.json
-- sources: https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
-- doubts: no_runtime_calls, no_stacks
-- If the launch after a launch is a copy to the device, an operator between the two made the copied tensor.
-- Other operators between them work on that tensor.
WITH launched AS (
    SELECT trace_id, pid, tid, launch_id, launch_start_ns, copy_kind, bytes,
           lag(launch_start_ns, 1, -thresholds().late_time_ns)
               OVER (PARTITION BY trace_id, pid, tid ORDER BY launch_start_ns) AS since_ns
    FROM gpu_ops WHERE NOT is_graph AND is_asked(trace_id)
),
copy AS (
    SELECT l.trace_id, l.pid, l.tid, launch_start_ns, since_ns,
           coalesce(outer_op_id, launch_id) AS copying_id,
           bytes / thresholds().host_bytes_per_s * 1e9 AS least_ns
    FROM launched AS l LEFT JOIN thread_slice AS s ON l.trace_id = s.trace_id AND launch_id = s.event_id
    WHERE copy_kind = 'HtoD'
        -- A tensor copied after a fetch is the batch.
        AND NOT EXISTS (FROM slices AS f WHERE f.trace_id = l.trace_id AND f.activity = 'input'
            AND f.pid = l.pid AND f.start_ns BETWEEN since_ns AND launch_start_ns)
),
-- Outermost operators, except those around the copy itself.
operator AS (
    SELECT o.trace_id, o.event_id, o.pid, o.tid, o.name, o.start_ns, o.dur_ns, copying_id, least_ns,
           o.event_id = copying_id AS is_copying,
           has(o.traits, 'makes_values') AND NOT is_copying AS makes
    FROM cpu_ops AS o JOIN thread_slice AS s ON o.trace_id = s.trace_id AND o.event_id = s.event_id
        AND s.outer_op_id = o.event_id
    ASOF JOIN copy AS c ON o.trace_id = c.trace_id AND o.pid = c.pid AND o.tid = c.tid
        AND o.start_ns <= c.launch_start_ns
    WHERE o.start_ns > c.since_ns
),
creation AS (
    SELECT * EXCLUDE place, arg_min(place, start_ns) FILTER (makes) OVER whole AS place,
           list(name) FILTER (NOT is_copying) OVER whole AS names,
           row_number() OVER (PARTITION BY trace_id, copying_id, makes ORDER BY start_ns) AS number
    FROM operator LEFT JOIN call_site USING (trace_id, event_id)
    WINDOW whole AS (PARTITION BY trace_id, copying_id)
    -- Something else happens if it is made faster than memory can be written.
    QUALIFY sum(dur_ns) FILTER (makes) OVER whole >= coalesce(least_ns, 0)
),
detailed_op AS (
    SELECT *, array_to_string(list_sort(list_distinct(first(names) OVER here))[:4], ', ') AS detail
    FROM creation WINDOW here AS (PARTITION BY trace_id, place)
)
SELECT trace_id, place, detail, 'host' AS target, event_id, pid, tid, start_ns, dur_ns,
       if(makes AND number = 1, least(1, thresholds().launch_floor_ns / nullif(dur_ns, 0)), 0) AS factor
FROM detailed_op WHERE NOT is_copying
UNION ALL
SELECT trace_id, place, detail, 'call', event_id, pid, tid, start_ns, dur_ns, 0
FROM detailed_op WHERE is_copying
