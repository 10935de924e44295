-- question: Which stretches between two waits of the host, each at its own place, could be CUDA graphs?
-- title: Capture what comes before this wait as a CUDA graph
-- causes: launch, dispatch, python
-- when: activity = 'sync' OR kind = 'memcpy'
-- in_loops: true
-- effort: medium
-- needs: Shapes, addresses and control flow that stay the same in this stretch; the wait itself stays outside
--     the graph.
-- caveat: A graph's kernels also start closer together; that gain is not counted.
-- blind: no_runtime_calls
-- before:
--     logits = model(tokens)                 # many launches
--     token = logits[:, -1].argmax(-1)
--     if token.item() == stop:               # the host waits here
--         break
-- after:
--     graphed = torch.cuda.make_graphed_callables(model, (tokens,))
--     logits = graphed(tokens)               # one launch
--     token = logits[:, -1].argmax(-1)
--     if token.item() == stop:
--         break
-- risks: Inputs are copied into fixed buffers, and outputs are overwritten by the next replay. Each captured
--     stretch keeps memory of its own, unless the graphs share a pool.
-- check: tracekit query graph_replays after.json; tracekit diff before.json after.json
-- sources: https://docs.pytorch.org/docs/stable/notes/cuda.html#partial-network-capture
--     https://docs.pytorch.org/docs/stable/generated/torch.cuda.make_graphed_callables.html
-- params trace
-- columns trace_id
-- column place (text): where the host waits at the stretch's end
-- column detail (text): the launches of such a stretch
-- column target (text): overhead: the launch, dispatch and Python between its launches
-- column event_id (id): the launch call after which a stretch begins
-- columns pid, tid
-- column start_ns (ns): where the stretch's first launch returns
-- column dur_ns (ns): from there to the return of its last launch
-- columns factor
-- doubts: no_gpu_ops, no_runtime_calls, unlinked_gpu_ops
-- A run whose waits are all at one place has one kind of stretch: the remedy cuda-graph is about that.
WITH launched AS (FROM capturable_launches()),
call AS (FROM waiting_calls()),
border AS (FROM placed('call')),
launch AS (
    SELECT l.*, b.event_id AS border_id, b.place
    -- The next wait of any thread ends the stretch.
    FROM launched AS l ASOF JOIN border AS b ON l.trace_id = b.trace_id AND l.end_ns <= b.start_ns
),
stretch AS (
    SELECT trace_id, place, border_id, pid, tid, arg_min(event_id, start_ns) AS event_id,
           min(end_ns) AS start_ns, max(end_ns) AS end_ns, count(*) AS launches
    FROM launch GROUP BY ALL HAVING count(*) > 1
),
recurring AS (
    SELECT trace_id, place, median(launches)::BIGINT AS usual, count(DISTINCT border_id) AS stretches
    FROM stretch GROUP BY ALL HAVING count(DISTINCT border_id) >= thresholds().fewest_alike
)
SELECT trace_id, place, format('usually {} launches', usual) AS detail, 'overhead' AS target, event_id,
       pid, tid, start_ns, end_ns - start_ns AS dur_ns, 0 AS factor
FROM stretch JOIN recurring USING (trace_id, place)
WHERE trace_id IN (SELECT trace_id FROM recurring GROUP BY trace_id HAVING count(*) > 1)
ORDER BY trace_id, place, start_ns
