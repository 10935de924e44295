-- question: Where are gradients set to zero one by one, instead of being dropped?
-- since: 0.1
-- title: Set gradients to None instead of zero
-- causes: dispatch, launch, memory-bandwidth
-- when: has(traits, 'zero_grad'); name IN ('aten::zero_', 'aten::_foreach_zero_')
-- needs: No code that expects gradients to be tensors between steps, and no graph captured with their
--     addresses.
-- caveat: A lower bound where one call fills all gradients: the backward pass then also sets them instead of
--     adding to them.
-- before:
--     optimizer.zero_grad(set_to_none=False)
-- after:
--     optimizer.zero_grad()             # the default since PyTorch 2.0; before: set_to_none=True
-- risks: Optimizers skip parameters whose gradient is None: a parameter without a gradient in a step no
--     longer gets weight decay or momentum in it.
-- check: tracekit query after.json annotation_kernels; tracekit diff before.json after.json
-- sources: https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html
--     https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
-- doubts: no_stacks
WITH zeroing AS (
    SELECT trace_id, event_id, pid, tid, coalesce(place, name) AS place, start_ns, end_ns
    FROM slices LEFT JOIN call_site USING (trace_id, event_id)
    WHERE has(traits, 'zero_grad') AND is_asked(trace_id)
    QUALIFY is_outermost((trace_id, pid, tid), start_ns, end_ns)
),
filled AS (
    SELECT f.trace_id, f.event_id, f.pid, f.tid, f.name, f.start_ns, f.end_ns, f.dur_ns,
           z.event_id AS zeroing_id, place
    FROM cpu_ops AS f JOIN zeroing AS z ON f.trace_id = z.trace_id AND f.pid = z.pid AND f.tid = z.tid
        AND f.start_ns BETWEEN z.start_ns AND z.end_ns
    WHERE f.name IN ('aten::zero_', 'aten::_foreach_zero_', 'aten::detach_')
    QUALIFY is_outermost((f.trace_id, f.pid, f.tid), f.start_ns, f.end_ns)
),
counted AS (
    SELECT *, count_if(name <> 'aten::detach_') OVER (PARTITION BY trace_id, zeroing_id) AS fills,
           bool_or(name = 'aten::_foreach_zero_') OVER (PARTITION BY trace_id, zeroing_id) AS at_once
    FROM filled
),
call AS (
    SELECT trace_id, event_id, pid, tid, start_ns, dur_ns, zeroing_id, place, fills, at_once FROM counted
    WHERE fills > 0
),
-- The first addition to each gradient after it was filled: what is None is set instead.
added AS (
    SELECT a.trace_id, a.event_id, a.pid, a.tid, a.start_ns, a.dur_ns, zeroing_id, place, fills, at_once
    FROM cpu_ops AS a JOIN thread_slice AS h ON a.trace_id = h.trace_id AND a.event_id = h.event_id
    JOIN event_row AS p ON h.trace_id = p.trace_id AND h.parent_id = p.event_id
    JOIN slice_label AS n ON p.label_id = n.label_id AND n.name = 'torch::autograd::AccumulateGrad'
    ASOF JOIN (SELECT DISTINCT ON (zeroing_id) * FROM call) AS c
      ON a.trace_id = c.trace_id AND a.pid = c.pid AND a.start_ns >= c.start_ns
    WHERE a.name = 'aten::add_'
    QUALIFY row_number() OVER (PARTITION BY a.trace_id, zeroing_id ORDER BY a.start_ns) <= fills
)
SELECT trace_id, place,
       CASE WHEN bool_or(at_once) OVER here THEN 'filled with zeros'
           ELSE 'up to ' || max(fills) OVER here || ' fills a call' END AS detail,
       'call' AS target, event_id, pid, tid, start_ns, dur_ns, 0 AS factor
FROM (FROM call UNION ALL FROM added)
WINDOW here AS (PARTITION BY trace_id, place)
