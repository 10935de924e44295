-- question: Which launches outside CUDA graphs recur, so that a graph could replay them?
-- since: 0.1
-- title: Capture the step as a CUDA graph
-- titled: vLLM: Run vLLM without --enforce-eager
-- causes: launch, dispatch, python
-- frameworks: PyTorch
-- unless: name = 'cuda graphs' AND share > thresholds().captured_majority
-- applied_as: graph
-- in_loops: true
-- frees_launches: true
-- effort: medium
-- needs: Shapes, addresses and control flow that stay the same from step to step; no host work in the step
--     that later work depends on. When the host waits, one graph ends and the next begins.
-- caveat: A replay is assumed to take the host 8 us in each marked step. A graph's kernels also start closer
--     together; that gain is not counted.
-- blind: no_runtime_calls
-- before:
--     for batch in loader:
--         loss = train_step(batch)
-- after:
--     train_step = torch.compile(train_step, mode="reduce-overhead")
--     for batch in loader:
--         loss = train_step(batch)
--
--     # vLLM compiles and captures the model itself, without --enforce-eager: a decode whole, a prefill in
--     # pieces around attention (https://docs.vllm.ai/en/latest/design/cuda_graphs.html)
--     # JAX: XLA makes graphs of a jitted step: --xla_gpu_enable_command_buffer in XLA_FLAGS
-- risks: Inputs are copied into fixed buffers, and outputs are overwritten by the next replay. A graph keeps
--     its own memory pool. Steps with new shapes are captured again, which costs more than it saves if it
--     happens often.
-- check: tracekit probe WORKLOAD; tracekit diff before.json after.json
-- sources: https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs
--     https://docs.nvidia.com/cuda/cuda-c-programming-guide/#cuda-graphs
-- column dur_ns (ns): how long the host worked since the thread's previous launch, including this one
-- doubts: no_gpu_ops, no_runtime_calls, unlinked_gpu_ops
-- Not where the host reads the device in the middle of what repeats: what follows may depend on the value.
-- And not where the host waits so often, within steps, that a replay would launch hardly more than single
-- launches do.
-- A run that captures graphs, or replays them for most GPU ops, has chosen what to leave out.
-- Of servers, only vLLM captures prefills, whose numbers of tokens differ.
WITH launch AS (
    SELECT l.trace_id, l.launch_id AS event_id, l.pid, l.tid, l.start_ns, l.end_ns, k.label_id AS kernel
    FROM launch_call AS l JOIN gpu_ops AS k ON l.trace_id = k.trace_id AND l.op_id = k.event_id
    ASOF LEFT JOIN server_step AS s
      ON l.trace_id = s.trace_id AND l.pid = s.pid AND l.tid = s.tid AND l.start_ns >= s.start_ns
    WHERE (l.start_ns < s.end_ns AND s.prefill_requests > 0
            AND l.trace_id NOT IN (FROM vllm_traces)) IS NOT TRUE
        AND is_asked(l.trace_id) AND l.can_be_captured AND NOT l.is_graph
        AND NOT l.is_blocking AND l.trace_id NOT IN (SELECT trace_id FROM graph_captures)
),
-- Each read, and the launches since the one before. Calls of one read have no launch between them.
since AS (
    SELECT r.trace_id, r.start_ns, place, l.kernel, nth - lag(nth, 1, 0) OVER (
               PARTITION BY r.trace_id, r.pid ORDER BY r.start_ns) AS launches
    FROM waiting_call AS r ASOF JOIN (
        SELECT *, row_number() OVER (PARTITION BY trace_id, pid ORDER BY end_ns) AS nth FROM launch) AS l
      ON r.trace_id = l.trace_id AND r.pid = l.pid AND r.start_ns >= l.end_ns
    WHERE is_read
),
-- Reads after few launches are at the edge of what repeats, if hardly any launch precedes such reads.
before AS (
    SELECT trace_id, start_ns,
           {'place': place, 'kernel': kernel, 'launches': round(log2(launches))} AS position
    FROM (SELECT *, launches < thresholds().graph_launches AS is_short FROM since WHERE launches > 0)
    WINDOW whole AS (PARTITION BY trace_id)
    QUALIFY NOT is_short OR sum(launches * is_short::INTEGER) OVER whole
        > thresholds().edge_share * sum(launches) OVER whole
),
-- In marked steps, more than one read in a step; else, reads at more than one position: those that recur, or
-- all if none does, as in a single pass.
cut AS (
    SELECT trace_id FROM (
        SELECT b.trace_id, count(*) AS reads FROM before AS b ASOF JOIN steps AS s
          ON b.trace_id = s.trace_id AND b.start_ns >= s.start_ns
        WHERE b.start_ns < s.end_ns GROUP BY b.trace_id, s.event_id)
    GROUP BY trace_id HAVING median(reads) > 1
    UNION ALL
    SELECT trace_id FROM (SELECT trace_id, count(*) AS reads FROM before GROUP BY trace_id, position)
    GROUP BY trace_id HAVING count(*) FILTER (reads >= thresholds().fewest_alike) > 1
        OR count(*) > 1 AND max(reads) < thresholds().fewest_alike
            AND trace_id NOT IN (SELECT trace_id FROM steps)
    UNION ALL
    -- In a single pass, what recurs is inside it, such as a read in each layer.
    SELECT trace_id FROM before GROUP BY trace_id
    HAVING count(*) >= thresholds().fewest_alike AND trace_id IN (
        SELECT trace_id FROM unit WHERE level = 1 GROUP BY trace_id HAVING bool_and(source = 'single'))
    UNION ALL
    -- Where the host reads the sizes of an exchange, which may be before the recording, they change from step
    -- to step.
    SELECT trace_id FROM annotations WHERE has(traits, 'exchanges_sizes')
),
stretch AS (
    SELECT l.trace_id, count(*) AS launches
    FROM (SELECT trace_id, end_ns FROM launch) AS l ASOF LEFT JOIN waiting_call AS w
      ON l.trace_id = w.trace_id AND l.end_ns <= w.start_ns
    GROUP BY l.trace_id, w.event_id
),
counted AS (
    SELECT *, end_ns - greatest(
               lag(end_ns, 1, start_ns) OVER (PARTITION BY trace_id, pid, tid ORDER BY start_ns),
               start_ns - thresholds().slow_launch_ns) AS dur_ns
    FROM launch ANTI JOIN cut USING (trace_id)
),
-- A step of few launches gains, too, if they take longer than a replay and its inputs' copies.
step AS (
    SELECT trace_id, launches
    FROM step_launches('counted')
    JOIN (SELECT trace_id, median(dur_ns) AS ns FROM counted GROUP BY ALL) USING (trace_id)
    WHERE steps >= thresholds().fewest_alike AND launches * ns >= thresholds().graph_step_ns
)
SELECT trace_id, NULL AS place,
       CASE WHEN trace_id IN (FROM vllm_traces)
           THEN 'vLLM: a decode whole, a prefill in pieces around attention'
           WHEN s.launches < thresholds().graph_launches
           THEN format('launches a step: {:.0f}', s.launches)
           WHEN trace_id NOT IN (SELECT trace_id FROM cpu_ops)
           THEN 'at least: no operators were recorded' END AS detail,
       'cuda-graph' AS target, event_id, pid, tid, start_ns, dur_ns, 0 AS factor
FROM counted SEMI JOIN (SELECT trace_id, kernel FROM launch GROUP BY ALL
    HAVING count(*) >= thresholds().fewest_alike) USING (trace_id, kernel)
LEFT JOIN step AS s USING (trace_id)
WHERE s.launches IS NOT NULL OR trace_id IN (
    -- In a trace's typical launch, the host makes so many launches between two waits. A single stretch may be
    -- as short as the recording.
    SELECT trace_id FROM stretch GROUP BY trace_id
    HAVING sum(launches * launches) / sum(launches) >= thresholds().graph_launches OR count(*) = 1)
