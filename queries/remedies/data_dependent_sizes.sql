-- question: Where does the host wait to learn how large an operator's result is?
-- since: 0.1
-- title: Keep sizes independent of device values
-- causes: sync
-- when: has(traits, 'data_dependent_size')
-- effort: medium
-- needs: The result can have a fixed size: masked in place, padded, or of a size that the host knows.
-- caveat: The extra work, on elements that the mask left out, is not counted.
-- blind: no_runtime_calls
-- before:
--     loss = losses[mask].mean()                       # nonzero: waits for the device
--     rows = rows.repeat_interleave(counts, dim=0)     # waits for the sum of counts
-- after:
--     loss = torch.where(mask, losses, 0).sum() / mask.sum()
--     rows = rows.repeat_interleave(counts, dim=0, output_size=total)   # total is known to the host
-- risks: Masking computes on all elements, which costs more if few are selected. torch.where passes NaN and
--     infinite gradients of elements that are masked out unless its inputs are masked, too.
-- check: torch.cuda.set_sync_debug_mode(1); tracekit query after.json sync_points
-- sources: https://docs.pytorch.org/docs/stable/generated/torch.nonzero.html
--     https://docs.pytorch.org/docs/stable/generated/torch.repeat_interleave.html
--     https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
-- doubts: no_gpu_ops, no_runtime_calls, no_stacks
-- Only the device knows the size of what a mask selects; indexing with a mask calls nonzero.
WITH sized_operator AS (
    FROM slices WHERE kind = 'cpu_op' AND is_asked(trace_id)
        AND (has(traits, 'data_dependent_size')
            OR name IN ('aten::index', 'aten::index_put_', 'aten::_index_put_impl_', 'aten::where'))
    QUALIFY is_outermost((trace_id, pid, tid), start_ns, end_ns)
),
-- Printing a tensor asks for sizes, too; another remedy is about prints.
waiting AS (
    FROM waiting_call WHERE is_sized AND NOT is_printed AND is_asked(trace_id)
    QUALIFY is_outermost((trace_id, pid, tid), start_ns, end_ns)
),
call AS (
    SELECT c.trace_id, place, c.pid, c.tid, c.start_ns, c.dur_ns, a.name AS detail, a.event_id
    FROM waiting AS c JOIN sized_operator AS a ON c.trace_id = a.trace_id AND c.pid = a.pid
        AND c.tid = a.tid AND c.start_ns BETWEEN a.start_ns AND a.end_ns
)
SELECT trace_id, place, min(detail) OVER (PARTITION BY trace_id, place) AS detail, 'call' AS target,
       event_id, pid, tid, start_ns, dur_ns, 0 AS factor
FROM call
