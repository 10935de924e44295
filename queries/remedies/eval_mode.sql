-- question: Which batch norms compute the statistics of their batch although nothing learns?
-- since: 0.1
-- title: Call model.eval() before inference
-- causes: memory-bandwidth, latency, dispatch, launch, math-or-memory
-- unless: name = 'mode' AND value = 'training'
-- when: list_has_any(traits, ['norm_of_training', 'norm_statistics'])
-- needs: An inference: the answers of a model in training mode depend on the other inputs of the batch, and
--     each call changes its running statistics.
-- caveat: Only the statistics are assumed to go. A norm in evaluation mode can also be folded into the
--     convolution before it, and dropout goes, too.
-- before:
--     with torch.no_grad():                       # does not turn training mode off
--         output = model(batch)
-- after:
--     model.eval()
--     with torch.inference_mode():
--         output = model(batch)
-- risks: Outputs change: they are those that the model was trained for. A forward pass that is measured for
--     training should record its backward pass, too.
-- check: tracekit query after.json top_kernels; tracekit diff before.json after.json
-- sources: https://docs.pytorch.org/docs/stable/notes/autograd.html#evaluation-mode-nn-module-eval
--     https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm2d.html
-- doubts: no_gpu_ops, no_stacks
-- In training mode, a module first counts its batches (num_batches_tracked.add_).
WITH kernel AS (
    SELECT g.trace_id, g.launch_id AS event_id, g.event_id AS gpu_op_id, 'op' AS target, g.start_ns, g.dur_ns,
           g.dur_ns AS ns, regexp_extract(g.name, '^(void )?([^<(]+)', 2) AS told,
           if(has(traits, 'norm_statistics'), 0, thresholds().eval_norm) AS factor
    FROM gpu_ops AS g JOIN slice_label USING (label_id)
    WHERE list_has_any(traits, ['norm_of_training', 'norm_statistics']) AND is_asked(g.trace_id)
)
FROM changed_ops('kernel')
UNION ALL
SELECT trace_id, place, 'counts batches', 'call', event_id, pid, tid, start_ns, dur_ns, 0
FROM outer_operators SEMI JOIN kernel USING (trace_id) LEFT JOIN call_site USING (trace_id, event_id)
WHERE name = 'aten::add_' AND name_after = 'aten::batch_norm'
