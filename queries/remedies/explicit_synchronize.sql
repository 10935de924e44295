-- question: Where does the program itself tell the host to wait for the device?
-- since: 0.1
-- title: Do not synchronize in the loop
-- causes: sync
-- when: activity = 'sync'; (SELECT count(*) > 0 FROM waiting_call JOIN (
--         SELECT trace_id, pid, tid, max(start_ns) AS last_ns FROM launch_call GROUP BY ALL
--     ) USING (trace_id, pid, tid)
--     WHERE start_ns < last_ns
--         AND (cpu_op IS NULL OR starts_with(cpu_op, 'Optimizer.') OR python_id NOT NULL))
-- needs: Nothing on the host reads what the device computes before that call; streams and copies are ordered
--     by events on the device.
-- caveat: If the program waits there for a value that was copied to the host, the wait moves to the place
--     that needs the value.
-- blind: no_runtime_calls
-- before:
--     start = time.perf_counter()
--     loss = train_step(batch)
--     torch.cuda.synchronize()                      # waits at every step
--     times.append(time.perf_counter() - start)
-- after:
--     begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
--     begin.record()
--     loss = train_step(batch)
--     end.record()                                  # read begin.elapsed_time(end) after the loop
-- risks: Without the wait, wall-clock times of single steps no longer show when the device was done, errors
--     of kernels show up later, and a buffer that another stream still uses needs an event or
--     record_stream().
-- check: tracekit query after.json sync_points; tracekit diff before.json after.json
-- sources: https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution
--     https://docs.pytorch.org/docs/stable/generated/torch.cuda.Event.html
--     https://docs.nvidia.com/cuda/cuda-c-programming-guide/#asynchronous-concurrent-execution
-- doubts: no_gpu_ops, no_runtime_calls, no_stacks
-- A call outside all operators is the program's. A call is not in the loop if its thread launches nothing
-- before or after it (the profiler's own calls), or if it is next to a graph's capture. A server that
-- generates needs the tokens of a step for the next one.
WITH waiting AS (
    SELECT trace_id, event_id, pid, tid, start_ns, dur_ns, call FROM runtime_calls
    WHERE activity = 'sync' AND is_asked(trace_id)
        AND NOT is_capturing(trace_id, pid, start_ns, thresholds().after_capture_ns)
        AND trace_id NOT IN (SELECT trace_id FROM server_step WHERE decode_requests > 0)
),
at_place AS (FROM waiting LEFT JOIN call_site USING (trace_id, event_id)),
-- A function written in C++ that is called from Python, such as Optimizer.step, is an operator, too.
own AS (
    FROM at_place WHERE cpu_op IS NULL OR starts_with(cpu_op, 'Optimizer.')
        OR (trace_id, python_id) IN (
            SELECT (trace_id, event_id) FROM slices WHERE has(traits, 'synchronizes'))
),
launched AS (
    SELECT trace_id, pid, tid, launch_start_ns AS start_ns, copy_kind
    FROM gpu_ops SEMI JOIN own USING (trace_id, pid, tid)
),
call AS (
    SELECT o.*,
           CASE WHEN o.call = 'wait_event' THEN 'waits for an event'
               WHEN o.call = 'wait_stream' THEN 'waits for a stream'
               ELSE 'waits for the whole device' END
           || if(b.copy_kind = 'DtoH', ', after a copy to the host', '') AS detail
    FROM own AS o
    ASOF JOIN launched AS b ON o.trace_id = b.trace_id AND o.pid = b.pid AND o.tid = b.tid
        AND o.start_ns > b.start_ns
    ASOF JOIN launched AS a ON o.trace_id = a.trace_id AND o.pid = a.pid AND o.tid = a.tid
        AND o.start_ns < a.start_ns
)
SELECT trace_id, nullif(place, cpu_op) AS place,
       mode(detail ORDER BY detail) OVER (PARTITION BY trace_id, place) AS detail,
       'host' AS target, event_id, pid, tid, start_ns, dur_ns, 0 AS factor
FROM call
