-- question: Where are gradients set to zero one by one, instead of being dropped?
-- title: Set gradients to None instead of zero
-- causes: dispatch, launch, memory-bandwidth
-- when: has(traits, 'zero_grad')
-- effort: low
-- needs: No code that expects gradients to be tensors between steps, and no graph captured with their
--     addresses.
-- caveat: A lower bound: the backward pass then also writes gradients instead of adding to them.
-- before:
--     optimizer.zero_grad(set_to_none=False)
-- after:
--     optimizer.zero_grad()             # the default since PyTorch 2.0; before: set_to_none=True
-- risks: Optimizers skip parameters whose gradient is None: a parameter without a gradient in a step no
--     longer gets weight decay or momentum in it.
-- check: tracekit query after.json annotation_kernels; tracekit diff before.json after.json
-- sources: https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html
--     https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
-- column detail (text): the number of tensors filled in each call
-- doubts: no_stacks
WITH named AS (
    SELECT trace_id, event_id, pid, tid, name, start_ns, end_ns FROM slices WHERE is_asked(trace_id)
        AND has(traits, 'zero_grad')
),
zeroing AS (FROM outermost('named')),
filled AS (
    SELECT f.trace_id, f.event_id, f.pid, f.tid, f.name, f.start_ns, f.end_ns, f.dur_ns,
           z.event_id AS zeroing_id, z.name AS zeroing
    FROM cpu_ops AS f JOIN zeroing AS z ON f.trace_id = z.trace_id AND f.pid = z.pid AND f.tid = z.tid
        AND f.start_ns BETWEEN z.start_ns AND z.end_ns
    WHERE f.name IN ('aten::zero_', 'aten::_foreach_zero_', 'aten::detach_')
),
counted AS (
    SELECT *, count(*) FILTER (name <> 'aten::detach_') OVER (PARTITION BY trace_id, zeroing_id) AS fills,
           bool_or(name = 'aten::_foreach_zero_') OVER (PARTITION BY trace_id, zeroing_id) AS at_once
    FROM outermost('filled')
),
place AS (SELECT trace_id, event_id AS zeroing_id, place FROM placed('zeroing'))
SELECT trace_id, coalesce(place, zeroing) AS place,
       CASE WHEN bool_or(at_once) OVER here THEN 'filled with zeros'
           ELSE 'up to ' || max(fills) OVER here || ' fills a call' END AS detail,
       'call' AS target, event_id, pid, tid, start_ns, dur_ns, 0 AS factor
FROM counted JOIN place USING (trace_id, zeroing_id)
WHERE fills > 0
WINDOW here AS (PARTITION BY trace_id, coalesce(place, zeroing))
