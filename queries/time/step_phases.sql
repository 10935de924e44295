-- question: How is each step split between forward, backward and optimizer, on the host and on the GPU?
-- since: 0.1
-- column step (text): the step in which the host launched it; NULL: outside any step, or no steps
--     recorded
-- column phase (text): forward, backward, optimizer or zero_grad; other: launched outside them (losses,
--     metrics, data), or not distinguished in this trace; unlinked: the launch is not in the trace
-- column host_ns (ns): time during which some thread was in this phase; phases may overlap; NULL for other
--     and unlinked
-- columns gpu_ops, gpu_ns
-- column share_of_gpu_time (fraction of the step's summed GPU time): gpu_ns over that of all its phases
-- doubts: no_gpu_ops, no_operators, no_modules, unlinked_gpu_ops, absurd_duration
-- Backward is what autograd's engine runs (autograd::engine::evaluate_function, recomputed activations
-- included), forward what is inside a module, a range of DistributedDataParallel or an operator that autograd
-- numbers (Sequence number), optimizer what Optimizer.step annotates, but for a closure's forward and
-- backward. Annotated ranges named forward or backward count too. The outermost of nested ranges decides. A
-- replay's kernels belong to the phase in which they were captured if the trace has that, else to the
-- annotated one.
-- Names: torch/csrc/autograd/engine.cpp and torch/optim/optimizer.py in https://github.com/pytorch/pytorch
WITH mark AS (
    SELECT trace_id, pid, tid, start_ns, end_ns,
           CASE WHEN kind = 'cpu_op' AND has(traits, 'backward') THEN 'backward'
               WHEN kind IN ('cpu_op', 'python') THEN 'forward'
               WHEN has(traits, 'optimizer_step') THEN 'optimizer'
               WHEN has(traits, 'zero_grad') THEN 'zero_grad'
               WHEN regexp_matches(name, '(?i)backward') THEN 'backward' ELSE 'forward' END AS name
    FROM slices WHERE is_asked(trace_id) AND dur_ns > 0 AND CASE kind
        WHEN 'cpu_op' THEN has(traits, 'backward') OR args->>'Sequence number' IS NOT NULL
        WHEN 'python' THEN has(traits, 'module')
        WHEN 'annotation' THEN has(traits, 'optimizer_step') OR has(traits, 'zero_grad')
            OR regexp_matches(name, '(?i)\bforward\b') <> regexp_matches(name, '(?i)\bbackward\b') END
),
model AS (
    FROM mark WHERE name IN ('forward', 'backward')
    QUALIFY is_outermost((trace_id, pid, tid), start_ns, end_ns)
),
optimizer AS (
    FROM mark WHERE name NOT IN ('forward', 'backward')
    QUALIFY is_outermost((trace_id, pid, tid), start_ns, end_ns)
),
captured AS (
    SELECT s.trace_id, s.event_id, is_backward, pid, tid, ts_ns
    FROM graph_site AS s LEFT JOIN event_row AS e
      ON s.trace_id = e.trace_id AND capture_trace_id = e.trace_id AND capture_launch_id = e.event_id
),
launched AS (
    SELECT g.trace_id, g.dur_ns, launch_id, launch_start_ns, is_backward, coalesce(c.pid, g.pid) AS pid,
           coalesce(c.tid, g.tid) AS tid, coalesce(ts_ns, launch_start_ns) AS at_ns
    FROM (FROM gpu_ops WHERE is_asked(trace_id)) AS g
    LEFT JOIN captured AS c ON g.trace_id = c.trace_id AND g.event_id = c.event_id
),
op AS (
    SELECT l.trace_id, dur_ns, launch_start_ns,
           CASE WHEN launch_id IS NULL THEN 'unlinked' WHEN is_backward THEN 'backward'
               WHEN at_ns < m.end_ns THEN m.name WHEN at_ns < o.end_ns THEN o.name ELSE 'other' END AS phase
    FROM launched AS l
    ASOF LEFT JOIN model AS m
      ON l.trace_id = m.trace_id AND l.pid = m.pid AND l.tid = m.tid AND at_ns >= m.start_ns
    ASOF LEFT JOIN optimizer AS o
      ON l.trace_id = o.trace_id AND l.pid = o.pid AND l.tid = o.tid AND at_ns >= o.start_ns
),
counted AS (
    SELECT op.trace_id, CASE WHEN launch_start_ns < s.end_ns THEN s.name END AS step, phase,
           count(*) AS gpu_ops, sum(op.dur_ns)::BIGINT AS gpu_ns
    FROM op ASOF LEFT JOIN steps AS s ON op.trace_id = s.trace_id AND launch_start_ns >= s.start_ns
    GROUP BY ALL
),
ran AS (
    SELECT {'trace_id': m.trace_id, 'step': CASE WHEN m.start_ns < s.end_ns THEN s.name END,
            'phase': m.name} AS key,
           m.start_ns, m.end_ns
    FROM (FROM model UNION ALL FROM optimizer) AS m
    ASOF LEFT JOIN steps AS s ON m.trace_id = s.trace_id AND m.start_ns >= s.start_ns
),
host AS (
    SELECT key.trace_id AS trace_id, key.step AS step, key.phase AS phase,
           sum(end_ns - start_ns)::BIGINT AS host_ns
    FROM interval_union('ran') GROUP BY ALL
)
SELECT
    coalesce(l.trace_id, h.trace_id) AS trace_id, coalesce(l.step, h.step) AS step,
    coalesce(l.phase, h.phase) AS phase, host_ns, coalesce(gpu_ops, 0) AS gpu_ops,
    coalesce(gpu_ns, 0) AS gpu_ns,
    coalesce(gpu_ns, 0) / nullif(sum(gpu_ns) OVER (PARTITION BY coalesce(l.trace_id, h.trace_id),
        coalesce(l.step, h.step)), 0) AS share_of_gpu_time
FROM counted AS l FULL JOIN host AS h
  ON l.trace_id = h.trace_id AND l.step IS NOT DISTINCT FROM h.step AND l.phase = h.phase
ORDER BY trace_id, step NULLS FIRST, gpu_ns DESC, phase
