-- question: Which layers, gradients and updates are computed on the CPU beside a device?
-- since: 0.1
-- title: Move this part of the model to the device
-- causes: dispatch, python, input
-- when: kind = 'cpu_op' AND (work NOT NULL OR has(traits, 'layer'))
--     AND longest_ns >= thresholds().late_launch_ns; (SELECT count(*) > 0
--     FROM cpu_ops AS o ASOF LEFT JOIN launches AS l
--       ON o.trace_id = l.trace_id AND o.pid = l.pid AND o.tid = l.tid AND o.start_ns <= l.start_ns
--     WHERE (work NOT NULL OR has(o.traits, 'layer')) AND o.dur_ns >= thresholds().late_launch_ns
--         AND (l.start_ns <= o.end_ns) IS NOT TRUE)
-- outside_loops: true
-- needs: Memory on the device for its weights; inputs that are there or can be copied ahead.
-- caveat: An upper bound: each operator is assumed to become a launch. The device's time for it, and for
--     copies of its inputs, is not counted.
-- blind: no_runtime_calls
-- before:
--     features = encoder(images)            # still on the CPU
--     logits = head(features.to("cuda"))
-- after:
--     encoder.to("cuda")
--     logits = head(encoder(images.to("cuda", non_blocking=True)))
-- risks: Small operators, and those whose result the host needs at once, may be faster on the CPU.
-- check: tracekit query after.json top_cpu_ops; tracekit diff before.json after.json
-- sources: https://docs.pytorch.org/docs/stable/notes/cuda.html
--     https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.to
-- doubts: no_gpu_ops, no_runtime_calls, no_stacks
-- Other operators may prepare input; those of gradients and of an optimizer's step belong to the model.
WITH part AS (
    SELECT trace_id, pid, tid, start_ns, end_ns FROM slices
    WHERE list_has_any(traits, ['autograd_node', 'optimizer_step']) AND is_asked(trace_id)
    QUALIFY is_outermost((trace_id, pid, tid), start_ns, end_ns)
),
product AS (
    SELECT o.trace_id, event_id, o.pid, o.tid, name, o.start_ns, o.end_ns, dur_ns
    FROM cpu_ops AS o ASOF LEFT JOIN part AS p
      ON o.trace_id = p.trace_id AND o.pid = p.pid AND o.tid = p.tid AND o.start_ns >= p.start_ns
    WHERE is_asked(o.trace_id) AND o.trace_id IN (SELECT trace_id FROM launch_call)
        AND (work IN ('linear', 'mm', 'addmm', 'bmm', 'baddbmm', 'convolution', 'attention')
            OR has(traits, 'layer') OR work NOT NULL AND o.end_ns <= p.end_ns)
    QUALIFY is_outermost((o.trace_id, o.pid, o.tid), o.start_ns, o.end_ns)
),
-- Operators that launch, or that a capture records, work on the device. Microseconds do not count.
working AS (
    SELECT * EXCLUDE (gpu_ops, kernels, gpu_ns), dur_ns AS ns, name AS told FROM launched_inside('product')
    WHERE gpu_ops = 0 AND dur_ns >= thresholds().late_launch_ns
),
own AS (
    FROM working AS w ANTI JOIN launches AS l ON l.trace_id = w.trace_id AND l.pid = w.pid AND l.tid = w.tid
        AND l.start_ns BETWEEN w.start_ns AND w.end_ns
),
at_place AS (FROM own LEFT JOIN call_site USING (trace_id, event_id))
SELECT trace_id, place, detail, 'host' AS target, event_id, pid, tid, start_ns, dur_ns,
       thresholds().launch_floor_ns / dur_ns AS factor
FROM detailed('at_place')
