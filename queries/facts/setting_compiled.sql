-- fact: How much of a run torch.compile's code launches, or generated.
-- into: setting
-- needs: gpu_ops
-- when: compiled IN ('wrapper', 'generated') OR kind = 'kernel' AND starts_with(name, 'triton_')
-- Triton kernels that somebody wrote begin with triton_, too, but not with the kind of fused work.
-- https://github.com/pytorch/pytorch/blob/main/torch/_inductor/codegen/triton.py
-- A compiler that only traces calls the same operators: kernels that it could fuse, and none that it wrote.
WITH call AS (
    SELECT trace_id, pid, tid, start_ns, end_ns FROM slices WHERE compiled IN ('wrapper', 'generated')
    QUALIFY is_outermost((trace_id, pid, tid), start_ns, end_ns)
),
op AS (SELECT *, count(*) OVER (PARTITION BY trace_id) AS ops FROM gpu_ops)
SELECT o.trace_id, 'compiler',
       if(o.trace_id IN (SELECT trace_id FROM label JOIN slice_label USING (label_id)
               WHERE regexp_matches(label.name, '^triton_|nvfuser|CudaCodeGen')),
           'torch.compile', 'torch.compile, which generates no kernel'),
       count(*) / any_value(ops), 'GPU ops', min(event_id)
FROM op AS o ASOF LEFT JOIN call AS c
  ON o.trace_id = c.trace_id AND o.pid = c.pid AND o.tid = c.tid AND o.launch_start_ns >= c.start_ns
WHERE regexp_matches(o.name, '^triton_(poi|red|per|mix|tem|for|fox)_') OR o.launch_start_ns < c.end_ns
GROUP BY o.trace_id
UNION ALL
-- Without a device, its code is no kernel.
SELECT trace_id, 'compiler', 'torch.compile', NULL, NULL, min(first_id)
FROM label JOIN slice_label USING (label_id)
WHERE compiled IN ('wrapper', 'generated') AND trace_id NOT IN (SELECT trace_id FROM gpu_ops)
GROUP BY trace_id
