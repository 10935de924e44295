-- question: What does torch.compile cost the host at run time: guards, prologues, wrappers, recompilation?
-- since: 0.1
-- column part (text): guards (is the compiled code still valid?), prologue (unpacking of inputs), wrapper
--     (the compiled region and its autograd function), generated (Inductor's code that launches kernels),
--     compilation (Dynamo, Inductor and Triton at work)
-- columns name, count, total_ns, self_ns, gpu_ops, gpu_ns
-- doubts: no_compiled_code
-- The slices' names: https://github.com/pytorch/pytorch/tree/main/torch/_dynamo, _functorch and _inductor.
WITH named AS (
    SELECT trace_id, event_id, pid, tid, name, start_ns, end_ns, dur_ns, compiled AS part
    FROM slices WHERE compiled IS NOT NULL AND is_asked(trace_id)
),
outer_slice AS (FROM named QUALIFY is_outermost((trace_id, pid, tid, name), start_ns, end_ns)),
inclusive AS (
    SELECT trace_id, part, name, sum(dur_ns)::BIGINT AS total_ns, sum(gpu_ops)::BIGINT AS gpu_ops,
           sum(gpu_ns)::BIGINT AS gpu_ns
    FROM launched_inside('outer_slice') GROUP BY ALL
)
SELECT trace_id, part, name, count(*) AS count, any_value(total_ns) AS total_ns,
       coalesce(sum(self_ns), 0)::BIGINT AS self_ns, any_value(gpu_ops) AS gpu_ops,
       any_value(gpu_ns) AS gpu_ns
FROM named LEFT JOIN thread_slice USING (trace_id, event_id) JOIN inclusive USING (trace_id, part, name)
GROUP BY trace_id, part, name
ORDER BY trace_id, total_ns DESC, name
