-- question: Where does the backward pass run layers again whose results were not kept (checkpointing)?
-- since: 0.1
-- title: Keep activations, do not recompute them
-- causes: dispatch, launch, python, math, memory-bandwidth, latency
-- when: has(traits, 'autograd_node')
-- effort: low
-- less_work: true
-- needs: Memory for the activations, at least of some layers.
-- caveat: An upper bound: it assumes that memory suffices to keep all of them.
-- before:
--     for block in self.blocks:
--         x = checkpoint(block, x, use_reentrant=False)
-- after:
--     for n, block in enumerate(self.blocks):              # as many as memory allows run once
--         x = block(x) if n < kept else checkpoint(block, x, use_reentrant=False)
--
--     # transformers: model.gradient_checkpointing_disable()
-- risks: Peak memory grows with each block that keeps its activations.
-- check: torch.cuda.max_memory_allocated(); tracekit diff before.json after.json
-- sources: https://docs.pytorch.org/docs/stable/checkpoint.html
--     https://arxiv.org/abs/1604.06174
-- doubts: no_gpu_ops, unlinked_gpu_ops
-- Operators inside a node of autograd have sequence numbers if they are a forward pass of their own. Formulas
-- of gradients of gradients have them, too, but never call a whole layer.
WITH node AS (
    SELECT trace_id, event_id, pid, tid, start_ns, end_ns FROM cpu_ops
    WHERE has(traits, 'autograd_node') AND is_asked(trace_id)
),
again AS (
    SELECT o.trace_id, n.event_id, o.pid, o.tid, min(o.start_ns) AS start_ns, max(o.end_ns) AS end_ns
    FROM (FROM cpu_ops WHERE NOT has(traits, 'autograd_node') AND sequence_number NOT NULL) AS o
    ASOF JOIN node AS n
      ON o.trace_id = n.trace_id AND o.pid = n.pid AND o.tid = n.tid AND o.start_ns >= n.start_ns
    WHERE o.start_ns < n.end_ns
    GROUP BY ALL HAVING bool_or(has(traits, 'layer'))
)
SELECT trace_id, NULL AS place, NULL AS detail, 'call' AS target, event_id, pid, tid, start_ns,
       end_ns - start_ns AS dur_ns, 0 AS factor
FROM again
