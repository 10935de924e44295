-- question: On the thread that runs most operators, how much time is computation and how much is overhead?
-- since: 0.1
-- columns pid, tid
-- column kind (text): host_active (all steps, else first operator to last), step or trace
-- columns name, start_ns, end_ns
-- column span_ns (ns): the window's length; the times below add up to it exactly
-- columns operators, launches
-- column compute_ns (ns): own time of operators that compute, and time in compiled graphs
-- column dispatch_ns (ns): own time of operators that mostly call other operators
-- column view_ns (ns): own time of operators that only describe memory (views, queries)
-- column allocation_ns (ns): calls of a device's runtime that allocate, and own time of operators that
--     allocate, if too long for bookkeeping: it then set up memory or a device's runtime
-- column python_ns (ns): Python frames
-- column waiting_ns (ns): Python frames that wait for other threads or processes: locks, queues, sockets
-- column input_ns (ns): data loading
-- column compilation_ns (ns): torch.compile, Triton and code loading
-- column runtime_ns (ns): other calls of a device's runtime or driver
-- column communication_ns (ns): waits for other ranks: calls of collectives and calls to other workers (RPC),
--     and time in which such a call was open, but no slice of the thread and no operator of another thread
-- column remote_ns (ns): the part of communication_ns in calls to other workers
-- column untraced_ns (ns): outside all slices but annotated ranges: Python or native code that was not
--     recorded (with_stack=True records Python)
-- column unrecorded_ns (ns): the part of untraced_ns in stretches too long for Python between two operators
-- column math_ns (ns): the part of compute_ns that arithmetic limits, judging by operators' shapes
-- column memory_ns (ns): the part of compute_ns that memory limits; the rest is unknown
-- column device_read_ns (ns): operators that read or copy a device's values and take too long to do only
--     that
-- column filling_ns (ns): operators that fill tensors with random numbers, as parameters are before a run
-- column device_evidence (text): evidence of a job with a GPU; NULL: none
-- doubts: no_operators, no_shapes, begin_end_events
WITH stretch AS (FROM cpu_stretches(getvariable('trace'))),
operator AS (
    SELECT trace_id, pid, tid, start_ns, end_ns
    FROM cpu_ops SEMI JOIN stretch USING (trace_id, pid, tid)
),
win AS (FROM cpu_windows WHERE is_asked(trace_id)),
summed AS (
    SELECT w.*, role, limit_by, s.end_ns - s.start_ns >= thresholds().unrecorded_ns AS is_long,
           sum(least(s.end_ns, w.end_ns) - greatest(s.start_ns, w.start_ns)) AS ns
    FROM win AS w JOIN stretch AS s ON w.trace_id = s.trace_id AND s.start_ns < w.end_ns
        AND s.end_ns > w.start_ns
    GROUP BY ALL
),
begun AS (
    SELECT w.*, count(*) AS operators
    FROM win AS w JOIN operator AS o ON w.trace_id = o.trace_id AND o.start_ns >= w.start_ns
        AND o.start_ns < w.end_ns
    GROUP BY ALL
),
waited AS (
    SELECT w.*, sum(r.end_ns - r.start_ns) AS device_read_ns
    FROM win AS w JOIN (
        FROM cpu_ops SEMI JOIN stretch USING (trace_id, pid, tid)
        WHERE list_has_any(traits, ['reads_device', 'copies']) AND dur_ns >= thresholds().stall_ns
        QUALIFY is_outermost((trace_id, pid, tid), start_ns, end_ns)) AS r
      ON w.trace_id = r.trace_id AND r.start_ns >= w.start_ns AND r.start_ns < w.end_ns
    GROUP BY ALL
),
filled AS (
    SELECT w.*, sum(f.dur_ns) AS filling_ns
    FROM win AS w JOIN (FROM cpu_ops SEMI JOIN stretch USING (trace_id, pid, tid)
        WHERE has(traits, 'fills')) AS f
      ON w.trace_id = f.trace_id AND f.start_ns >= w.start_ns AND f.start_ns < w.end_ns
    GROUP BY ALL
),
device_sign AS (
    SELECT trace_id, string_agg(DISTINCT sign, ', ' ORDER BY sign) AS signs
    FROM (
        SELECT trace_id, regexp_extract(n.name, '^(triton_[a-z]+_|[A-Za-z_:]+)') AS sign
        FROM label JOIN slice_label AS n USING (label_id) WHERE has(traits, 'device_only')
        UNION ALL
        SELECT trace_id, 'metrics of CUPTI' FROM label JOIN slice_label AS n USING (label_id)
        WHERE n.kind = 'counter_range'
        UNION ALL
        SELECT trace_id, 'allocations on a device' FROM memory_events
        -- c10::DeviceType of memory that is neither the host's (0) nor nowhere (14, meta).
        WHERE device_type NOT IN (0, 14)
        UNION ALL
        -- A listed GPU may be unused, and the backend is only certain if there is just one.
        SELECT trace_id, 'backend ' || nullif(regexp_extract(metadata->'distributedInfo'->>'backend',
            '^(cuda:)?(nccl|rccl|xccl|hccl)$', 2), '') AS sign FROM trace
        WHERE sign IS NOT NULL AND trace_id IN (SELECT trace_id FROM device)
        UNION ALL
        -- GPU events are written last, so a truncated file may be missing exactly these.
        SELECT trace_id, 'a listed device' FROM trace
        WHERE damage IS NOT NULL AND trace_id IN (SELECT trace_id FROM device)
        UNION ALL
        SELECT trace_id, 'slices that are not read' FROM recorder_finding WHERE code = 'unread_device'
    ) GROUP BY trace_id
)
SELECT
    trace_id, pid, tid, kind, name, s.start_ns, s.end_ns, s.end_ns - s.start_ns AS span_ns,
    coalesce(any_value(operators), 0) AS operators, coalesce(any_value(launches), 0) AS launches,
    sum_where(ns, role = 'compute') AS compute_ns, sum_where(ns, role = 'dispatch') AS dispatch_ns,
    sum_where(ns, role = 'view') AS view_ns, sum_where(ns, role = 'allocation') AS allocation_ns,
    sum_where(ns, role = 'python') AS python_ns, sum_where(ns, role = 'waiting') AS waiting_ns,
    sum_where(ns, role = 'input') AS input_ns,
    sum_where(ns, role = 'compilation') AS compilation_ns, sum_where(ns, role = 'runtime') AS runtime_ns,
    sum_where(ns, role = 'communication') AS communication_ns,
    sum_where(ns, limit_by = 'remote') AS remote_ns, sum_where(ns, role = 'untraced') AS untraced_ns,
    sum_where(ns, role = 'untraced' AND is_long) AS unrecorded_ns,
    sum_where(ns, role = 'compute' AND limit_by = 'math') AS math_ns,
    sum_where(ns, role = 'compute' AND limit_by = 'memory-bandwidth') AS memory_ns,
    coalesce(any_value(device_read_ns), 0)::BIGINT AS device_read_ns,
    coalesce(any_value(filling_ns), 0)::BIGINT AS filling_ns, any_value(signs) AS device_evidence
FROM summed AS s JOIN (SELECT DISTINCT trace_id, pid, tid FROM stretch) USING (trace_id)
LEFT JOIN begun USING (trace_id, kind, name, start_ns, end_ns)
LEFT JOIN waited USING (trace_id, kind, name, start_ns, end_ns)
LEFT JOIN filled USING (trace_id, kind, name, start_ns, end_ns) LEFT JOIN device_sign USING (trace_id)
LEFT JOIN (SELECT trace_id, count(*) AS launches FROM launches GROUP BY trace_id) USING (trace_id)
GROUP BY trace_id, pid, tid, kind, name, s.start_ns, s.end_ns
ORDER BY trace_id, kind, s.start_ns, s.end_ns, name
