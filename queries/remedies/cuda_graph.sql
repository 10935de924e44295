-- question: Which launches, outside CUDA graphs, come again and again, so that a graph could replay them?
-- title: Capture the step as a CUDA graph
-- causes: launch, dispatch, python
-- in_loops: true
-- effort: medium
-- needs: Shapes, addresses and control flow that stay the same from step to step; no host work in the step
--     that later work depends on.
-- caveat: A graph's kernels also start closer together; that gain is not counted.
-- blind: no_runtime_calls
-- before:
--     for batch in loader:
--         loss = train_step(batch)
-- after:
--     train_step = torch.compile(train_step, mode="reduce-overhead")
--     for batch in loader:
--         loss = train_step(batch)
-- risks: Inputs are copied into fixed buffers, and outputs are overwritten by the next replay. A graph keeps
--     its own memory pool. What changes shape is captured again, which costs more than it saves if it happens
--     often.
-- check: tracekit probe WORKLOAD; tracekit diff before.json after.json
-- sources: https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs
--     https://docs.nvidia.com/cuda/cuda-c-programming-guide/#cuda-graphs
-- params trace
-- columns trace_id
-- column place (text): NULL: the run as a whole, between the places where the host waits for the device
-- column detail (text): NULL
-- column target (text): cuda-graph: the change of that name
-- columns event_id, pid, tid, start_ns
-- column dur_ns (ns): how long the host worked since the thread's launch before, and in it
-- columns factor
-- doubts: no_gpu_ops, no_runtime_calls, unlinked_gpu_ops
WITH counted AS (
    SELECT *, count(*) OVER (PARTITION BY trace_id, kernel) AS alike,
           lag(end_ns, 1, start_ns) OVER (PARTITION BY trace_id, pid, tid ORDER BY start_ns) AS since_ns
    FROM capturable_launches()
)
SELECT trace_id, NULL AS place, NULL AS detail, 'cuda-graph' AS target, event_id, pid, tid, start_ns,
       end_ns - greatest(since_ns, start_ns - thresholds().slow_launch_ns) AS dur_ns, 0 AS factor
FROM counted
WHERE alike >= thresholds().fewest_alike
ORDER BY trace_id, start_ns
