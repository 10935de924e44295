-- question: Which captures of CUDA graphs recur, so that replays could take their place?
-- since: 0.1
-- title: Capture each graph once, before measuring
-- causes: compilation, launch
-- when: call = 'begin_capture'
-- once: capture
-- may_end: true
-- needs: Every shape that the run uses is captured before the first step that counts. Inputs that are not
--     copied, such as weights, stay at their addresses.
-- before:
--     for batch in loader:                 # captures again for each new size
--         graphed(batch)
-- after:
--     for size in (1, 2, 4, 8):            # pad batches to these sizes
--         graphed(example(size))
--     for batch in loader:
--         graphed(pad(batch))
-- risks: Each captured size keeps its own memory, unless the graphs share a pool.
-- check: tracekit query TRACE one_offs; tracekit query TRACE graph_replays; TORCH_LOGS=cudagraphs says why
--     torch.compile captures again
-- sources: https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs
--     https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/torch.compiler_cudagraph_trees.html
-- doubts: no_runtime_calls
SELECT trace_id, operator AS place,
       format('{} captures of {:.1f} ms', count(*) OVER here, median(end_ns - start_ns) OVER here / 1e6)
           || coalesce(format(', {:.1f} ms without one', nullif(usual_ns, 0) / 1e6), '') AS detail,
       'host' AS target, event_id, pid, tid, start_ns, end_ns - start_ns AS dur_ns,
       usual_ns / (end_ns - start_ns) AS factor
FROM capture_calls JOIN recurring_capture USING (trace_id, capture_id)
WHERE is_asked(trace_id)
    AND recurs(steps, in_steps, quarters, thresholds().fewest_alike, thresholds().recurring_quarters)
WINDOW here AS (PARTITION BY trace_id, operator)
