-- question: Where does a step or function call one module again and again on inputs too small for the device?
-- since: 0.1
-- title: Process the items of the loop in one batch
-- causes: dispatch, python, launch, latency
-- when: has(traits, 'module') AND event_count >= thresholds().fewest_batched
-- effort: medium
-- less_work: true
-- needs: Items that do not depend on each other, of one shape or padded to it, and memory for all of them.
-- caveat: The loop is assumed to be over items because the same module runs on the same thread each time.
--     Kernels that fill part of the device are assumed to process several items in the time of one.
-- blind: no_runtime_calls, no_stacks
-- before:
--     for crop in crops:
--         outputs.append(model(crop[None]))
-- after:
--     outputs = model(torch.stack(crops))
-- risks: If batches vary in size, compiled code and graphs may be made again for each. Batch norms in
--     training mode see other statistics.
-- check: tracekit query after.json module_time; tracekit diff before.json after.json
-- sources: https://docs.nvidia.com/deeplearning/performance/dl-performance-gpu-background/index.html
--     https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
-- doubts: no_gpu_ops, no_runtime_calls, unlinked_gpu_ops
-- Cells of recurrent networks, and decoding token by token, depend on the call before. Without marked steps,
-- a function whose loop covers nearly all launches, or of a run that learns, may be the loop over steps.
WITH root AS (FROM outer_modules WHERE NOT regexp_matches(name, '(?i)(RNN|GRU|LSTM|Cell)_?\d*$')),
sequential AS (
    SELECT trace_id, pid, tid, start_ns, end_ns FROM python_frames
    WHERE trace_id IN (SELECT trace_id FROM root)
        AND regexp_matches(name, '(?i)\): \w*(generate|greedy|beam|decode|sample|rollout|denoise)\w*$')
),
-- The loop is in a step, else in the function that calls it.
loop AS (
    SELECT r.*, CASE WHEN r.start_ns < s.end_ns THEN s.event_id END AS step_id,
           coalesce(step_id, h.parent_id) AS around_id,
           row_number() OVER (PARTITION BY r.trace_id, around_id, r.pid, r.tid, r.name ORDER BY r.start_ns)
               AS number,
           count(*) OVER (PARTITION BY r.trace_id, around_id, r.pid, r.tid, r.name) AS calls
    FROM root AS r JOIN thread_slice AS h ON r.trace_id = h.trace_id AND r.event_id = h.event_id
    ASOF LEFT JOIN (FROM steps WHERE event_id >= 0) AS s
      ON r.trace_id = s.trace_id AND r.start_ns >= s.start_ns
    WHERE NOT EXISTS (FROM sequential AS q WHERE q.trace_id = r.trace_id
        AND q.pid = r.pid AND q.tid = r.tid AND r.start_ns BETWEEN q.start_ns AND q.end_ns)
    QUALIFY calls >= thresholds().fewest_batched
),
-- A function's loop, from its first call to the end of its last.
whole AS (
    SELECT trace_id, pid, tid, around_id, name, min(start_ns) AS start_ns, max(end_ns) AS end_ns
    FROM loop GROUP BY ALL
),
covered AS (
    SELECT w.trace_id, w.around_id, w.name FROM launched_inside('whole') AS w
    JOIN (SELECT trace_id, count(launch_id) AS launches FROM gpu_ops GROUP BY trace_id) USING (trace_id)
    WHERE gpu_ops < thresholds().own_share * launches
),
item AS (
    SELECT *, calls || if(step_id IS NULL, ' calls in a row', ' calls a step') AS detail
    FROM launched_inside('loop')
    WHERE step_id IS NOT NULL OR trace_id NOT IN (FROM learning_traces)
        AND (trace_id, around_id, name) IN (SELECT (trace_id, around_id, name) FROM covered)
    WINDOW same AS (PARTITION BY trace_id, around_id, name)
    -- The device is mostly idle, and each call launches the same ops.
    QUALIFY sum(gpu_ns) OVER same < (1 - thresholds().captured_majority) * sum(dur_ns) OVER same
        AND min(kernels) OVER same = max(kernels) OVER same AND min(kernels) OVER same > 0
),
op AS (
    SELECT i.trace_id, i.name, i.detail, g.event_id, i.pid, i.tid, g.start_ns, g.dur_ns, i.number,
           CASE WHEN g.dur_ns > thresholds().launch_floor_ns
               THEN calls * least(1, coalesce(blocks_per_sm, 1)) END AS times
    FROM gpu_ops AS g ASOF JOIN item AS i
      ON g.trace_id = i.trace_id AND g.pid = i.pid AND g.tid = i.tid AND g.launch_start_ns >= i.start_ns
    WHERE g.launch_start_ns < i.end_ns
)
SELECT trace_id, name AS place, detail, 'host' AS target, event_id, pid, tid, start_ns, dur_ns, 0 AS factor
FROM item WHERE number > 1
UNION ALL
SELECT trace_id, name, detail, 'op', event_id, pid, tid, start_ns, dur_ns,
       if(number = 1, greatest(1, times), 0)
FROM op
