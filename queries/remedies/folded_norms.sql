-- question: Which batch norms follow a convolution in inference, so that its weights could contain them?
-- since: 0.1
-- title: Fold batch norms into their convolutions
-- causes: memory-bandwidth, dispatch, launch, python
-- unless: name = 'mode' AND value = 'training'
-- when: name = 'aten::batch_norm'
-- needs: A model in eval mode, whose statistics no longer change.
-- before:
--     model.eval()
--     with torch.inference_mode():
--         output = model(images)
-- after:
--     model = torch.fx.experimental.optimization.fuse(model.eval())
--     # or torch.compile(model) with torch._inductor.config.freezing = True
--     # On a CPU also: model.to(memory_format=torch.channels_last), and bf16 where the CPU multiplies it
--     with torch.inference_mode():
--         output = model(images)
-- risks: Results differ in the last bits. The folded model cannot be trained.
-- check: tracekit diff before.json after.json
-- sources: https://docs.pytorch.org/tutorials/intermediate/fx_conv_bn_fuser.html
--     https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
-- doubts: no_stacks
-- A run without a backward pass and an optimizer is inference; in training, aten::add_ comes before a norm.
WITH norm AS (
    FROM outer_operators
    WHERE name = 'aten::batch_norm' AND regexp_matches(name_before, '^aten::conv\w*$')
)
SELECT trace_id, place, in_step(count(*) OVER (PARTITION BY trace_id, place), steps) || ' norms' AS detail,
       'call' AS target, event_id, pid, tid, start_ns, dur_ns, 0 AS factor
FROM norm JOIN run_steps USING (trace_id) LEFT JOIN call_site USING (trace_id, event_id)
