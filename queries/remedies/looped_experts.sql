-- question: Where does a loop select each expert's tokens, which waits for their number, and multiply them?
-- since: 0.1
-- title: Multiply the tokens of all experts at once
-- causes: dispatch, launch, python, sync
-- when: has(traits, 'data_dependent_size')
-- effort: high
-- needs: Experts of one shape, with their weights in one tensor.
-- caveat: The host's work for one expert is assumed to do for all. The device's work stays as it is: sorting
--     the tokens takes a little, and fewer, larger kernels take less.
-- blind: no_runtime_calls
-- before:
--     for e in range(experts):
--         rows = (expert_of_token == e).nonzero()[:, 0]      # waits for the device
--         y.index_add_(0, rows, x[rows] @ weights[e])
-- after:
--     order = expert_of_token.argsort()                      # tokens of one expert side by side
--     ends = expert_of_token.bincount(minlength=experts).cumsum(0, dtype=torch.int32)
--     y[order] = torch._grouped_mm(x[order], weights, offs=ends)
-- risks: Sums are taken in another order, so results differ in the last bits. Grouped products need recent
--     devices and versions of PyTorch, and bf16.
-- check: tracekit query after.json sync_points; tracekit diff before.json after.json
-- sources: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.grouped_mm.html
--     https://arxiv.org/abs/2211.15841
-- doubts: no_gpu_ops, no_runtime_calls, no_stacks
-- A turn of the loop: a size is read, products run, and rows are written. Products between two turns end a
-- loop.
WITH sized AS (
    SELECT trace_id, event_id, pid, tid, start_ns, end_ns FROM slices
    WHERE kind = 'cpu_op' AND has(traits, 'data_dependent_size') AND is_asked(trace_id)
    QUALIFY is_outermost((trace_id, pid, tid), start_ns, end_ns)
),
product AS (
    SELECT s.trace_id, s.event_id, min(launch_start_ns) AS first_ns, max(launch_start_ns) AS last_ns
    FROM gpu_ops AS g ASOF JOIN sized AS s
      ON g.trace_id = s.trace_id AND g.pid = s.pid AND g.tid = s.tid AND g.launch_start_ns >= s.end_ns
    WHERE g.class = 'gemm' GROUP BY ALL
),
written AS (
    SELECT s.trace_id, s.event_id, w.start_ns, w.end_ns
    FROM (FROM cpu_ops WHERE name IN ('aten::index_add_', 'aten::index_put_', 'aten::scatter_add_')) AS w
    ASOF JOIN sized AS s
      ON w.trace_id = s.trace_id AND w.pid = s.pid AND w.tid = s.tid AND w.start_ns >= s.end_ns
),
turn AS (
    SELECT s.*, first_ns, last_ns, min(w.end_ns) FILTER (w.start_ns >= first_ns) AS done_ns
    FROM sized AS s LEFT JOIN product AS p USING (trace_id, event_id)
    LEFT JOIN written AS w USING (trace_id, event_id)
    WHERE EXISTS (FROM waiting_call AS c WHERE c.is_sized AND c.trace_id = s.trace_id AND c.pid = s.pid
        AND c.tid = s.tid AND c.start_ns BETWEEN s.start_ns AND s.end_ns)
    GROUP BY ALL
),
loop AS (
    SELECT *, count_if(is_first) OVER (same ROWS UNBOUNDED PRECEDING) AS number FROM (
        SELECT *, lag(done_ns) OVER same AS since_ns,
               (since_ns > lag(last_ns) OVER same) IS NOT TRUE AS is_first
        FROM turn WINDOW same AS (PARTITION BY trace_id, pid, tid ORDER BY start_ns))
    WHERE done_ns NOT NULL
    WINDOW same AS (PARTITION BY trace_id, pid, tid ORDER BY start_ns)
),
counted AS (
    SELECT l.*, place, count(*) OVER (PARTITION BY l.trace_id, l.pid, l.tid, number) AS turns
    FROM loop AS l LEFT JOIN call_site USING (trace_id, event_id)
    QUALIFY turns >= thresholds().fewest_batched
)
SELECT trace_id, place, max(turns) OVER (PARTITION BY trace_id, place) || ' experts one by one' AS detail,
       'host' AS target, event_id, pid, tid, since_ns AS start_ns, done_ns - since_ns AS dur_ns, 0 AS factor
FROM counted WHERE NOT is_first
