-- question: Which calls make the host wait for a value from a device, and on which line?
-- since: 0.1
-- title: Read no values of the device in the loop
-- causes: sync
-- when: (SELECT bool_or(is_read AND (is_printed OR NOT is_sized)) FROM waiting_call)
-- needs: The value is not needed in this step: log it later, every n-th step, or decide on the device. Sizes
--     of an exchange have to be known ahead, such as those of the next batch, or be fixed, with padding.
-- caveat: The whole call goes, its work on the host and its copy on the device, too: that can be more than
--     the host waits there.
-- blind: no_runtime_calls
-- before:
--     for batch in loader:
--         loss = step(batch)
--         total += loss.item()          # waits for the device at every step
-- after:
--     total = torch.zeros((), device=device)
--     for batch in loader:
--         loss = step(batch)
--         total += loss.detach()        # stays on the device
--     print(total.item())               # one wait, at the end
--
--     with torch.cuda.stream(side):     # sizes of an exchange: while the batch before is computed
--         pinned.copy_(sizes, non_blocking=True)
--         copied.record(side)
--     copied.synchronize()              # later: waits for that copy alone
-- risks: Later checks notice problems later: a NaN in the loss, for example. Printing a tensor reads it, too.
--     Without any wait, the host may run far ahead, and the memory of the batches that it has queued stays in
--     use.
-- check: tracekit diff before.json after.json; tracekit query after.json sync_points
-- sources: https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
--     https://docs.pytorch.org/docs/stable/generated/torch.cuda.set_sync_debug_mode.html
-- doubts: no_gpu_ops, no_runtime_calls, no_stacks
-- `.item()`, `.cpu()`, `bool(tensor)` and `print(tensor)` copy a value to the host and wait for it. The whole
-- call goes, and so does a view that only it reads; the sizes of an exchange lose only their wait. Results of
-- a pass have to be read. Another remedy handles operators whose result's size depends on values, except in a
-- print.
-- `purpose`: 'sizes' of an exchange between ranks, a 'result' (the copies between two kernels are large, or a
-- pass ends with them), or a 'value' to log. `user_range` is the innermost range that the program opened.
WITH call AS (
    FROM waiting_call WHERE is_read AND (is_printed OR NOT is_sized) AND is_asked(trace_id)
),
reading AS (
    SELECT trace_id, event_id, pid, tid, name, start_ns, end_ns, has(traits, 'reads_device') AS is_scalar
    FROM slices SEMI JOIN call USING (trace_id, pid, tid)
    WHERE list_has_any(traits, ['tensor_text', 'reads_device', 'copies'])
    QUALIFY is_outermost((trace_id, pid, tid), start_ns, end_ns)
),
around AS (
    SELECT r.trace_id, r.event_id, r.pid, r.tid, r.start_ns, r.end_ns, r.is_scalar,
           bool_or(is_printed) AS is_printed,
           if(bool_or(is_printed), 'a tensor is printed', min(cpu_op)) AS detail
    FROM call AS c ASOF JOIN reading AS r
      ON c.trace_id = r.trace_id AND c.pid = r.pid AND c.tid = r.tid AND c.start_ns >= r.start_ns
    WHERE c.start_ns < r.end_ns GROUP BY ALL
),
kernel AS (
    SELECT l.trace_id, l.launch_id, l.pid, l.tid, l.start_ns, c.type
    FROM launch_call AS l JOIN gpu_ops AS k ON l.trace_id = k.trace_id AND l.op_id = k.event_id
    LEFT JOIN (SELECT trace_id, event_id, type FROM collective) AS c
        ON l.trace_id = c.trace_id AND l.op_id = c.event_id
    WHERE k.kind = 'kernel'
),
copied AS (
    SELECT a.trace_id, a.event_id, sum(bytes) AS bytes
    FROM (FROM gpu_ops WHERE copy_kind = 'DtoH' AND launch_id IS NOT NULL) AS c ASOF JOIN around AS a
      ON c.trace_id = a.trace_id AND c.pid = a.pid AND c.tid = a.tid AND c.launch_start_ns >= a.start_ns
    WHERE c.launch_start_ns < a.end_ns GROUP BY ALL
),
ranged AS (
    SELECT a.trace_id, a.event_id, arg_max(r.name, r.start_ns) AS user_range,
           bool_or(has(r.traits, 'exchanges_sizes')) AS is_exchange
    FROM around AS a JOIN annotations AS r ON a.trace_id = r.trace_id AND a.pid = r.pid AND a.tid = r.tid
        AND a.start_ns BETWEEN r.start_ns AND r.end_ns
    WHERE side = 'host' AND NOT list_has_any(r.traits, ['step', 'collective_call', 'compiled_graph'])
    GROUP BY ALL
),
followed AS (
    SELECT a.*, k.launch_id AS next_id, k.type AS next_type, s.event_id AS step_id,
           CASE WHEN a.start_ns < s.end_ns THEN (k.start_ns < s.end_ns) IS NOT TRUE
                ELSE k.launch_id IS NULL END AS is_last
    FROM around AS a
    ASOF LEFT JOIN kernel AS k
      ON a.trace_id = k.trace_id AND a.pid = k.pid AND a.tid = k.tid AND a.end_ns <= k.start_ns
    ASOF LEFT JOIN steps AS s
      ON a.trace_id = s.trace_id AND a.pid = s.pid AND a.tid = s.tid AND a.start_ns >= s.start_ns
),
grouped AS (
    SELECT f.*, user_range, is_exchange, max(bytes) OVER here AS most_bytes, sum(bytes) OVER here AS all_bytes
    FROM followed AS f LEFT JOIN copied USING (trace_id, event_id) LEFT JOIN ranged USING (trace_id, event_id)
    WINDOW here AS (PARTITION BY f.trace_id, pid, tid, step_id, next_id)
),
-- The operator that ended last before the read: a view that launches nothing.
before AS (
    SELECT g.trace_id, g.event_id, o.start_ns AS view_ns
    FROM grouped AS g ASOF JOIN (
        SELECT trace_id, event_id, pid, tid, start_ns, end_ns, traits FROM cpu_ops
        SEMI JOIN call USING (trace_id, pid, tid)) AS o
      ON g.trace_id = o.trace_id AND g.pid = o.pid AND g.tid = o.tid AND g.start_ns >= o.end_ns
    JOIN thread_slice AS s ON g.trace_id = s.trace_id AND g.event_id = s.event_id
    JOIN thread_slice AS v ON o.trace_id = v.trace_id AND o.event_id = v.event_id
    WHERE has(o.traits, 'metadata') AND NOT has(o.traits, 'reads_device')
        AND s.line_id IS NOT DISTINCT FROM v.line_id AND s.module_id IS NOT DISTINCT FROM v.module_id
        AND g.start_ns - o.end_ns < g.end_ns - g.start_ns
),
read AS (
    SELECT g.trace_id, g.event_id, pid, tid, coalesce(view_ns, start_ns) AS start_ns, end_ns,
           end_ns - coalesce(view_ns, start_ns) AS dur_ns, detail, user_range,
           CASE WHEN is_printed THEN 'value'
                WHEN is_exchange OR NOT is_scalar AND next_type IN ('alltoall', 'sendrecv') THEN 'sizes'
                WHEN is_scalar THEN 'value'
                WHEN all_bytes >= thresholds().result_bytes THEN 'result'
                WHEN is_last AND most_bytes > thresholds().scalar_bytes THEN 'result'
                ELSE 'value' END AS purpose
    FROM grouped AS g LEFT JOIN before USING (trace_id, event_id)
)
SELECT trace_id, if(python_id IS NULL AND module_id IS NULL, coalesce(user_range, place), place) AS place,
       if(purpose = 'sizes', 'sizes of an exchange: copy them ahead on a side stream', detail) AS detail,
       if(purpose = 'sizes', 'wait', 'call') AS target, event_id, pid, tid, start_ns, dur_ns, 0 AS factor
FROM read LEFT JOIN call_site USING (trace_id, event_id) WHERE purpose <> 'result'
