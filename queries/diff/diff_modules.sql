-- question: Which modules (nn.Module) cost more or less in b than in a?
-- params a, b, top
-- columns module
-- column a_calls (count per step): forward calls in a, per step (in all if a marks no steps)
-- column b_calls (count per step): in b
-- column a_host_ns (ns): their time on the host, inner modules included, over the steps of a
-- columns b_host_ns, a_gpu_ns, b_gpu_ns
-- column change_ns (ns): of host and GPU time together
-- doubts: no_modules, unlinked_gpu_ops
WITH run AS (FROM compared_runs(coalesce(getvariable('a'), 1), coalesce(getvariable('b'), 2))),
frame AS (
    SELECT trace_id, pid, tid, module_name(name) AS name, start_ns, end_ns, dur_ns FROM python_frames
    WHERE is_module AND trace_id IN (SELECT trace_id FROM run)
),
cost AS (FROM launched_inside('frame')),
summed AS (
    SELECT side, name, count(*) / steps AS count, (sum(dur_ns) // steps)::BIGINT AS host_ns,
           (sum(gpu_ns) // steps)::BIGINT AS gpu_ns
    FROM cost JOIN run USING (trace_id) GROUP BY side, name, steps
),
compared AS (
    SELECT name AS module, of_side(count, side, 'a') AS a_calls, of_side(count, side, 'b') AS b_calls,
           of_side(host_ns, side, 'a') AS a_host_ns,
           of_side(host_ns, side, 'b') AS b_host_ns, of_side(gpu_ns, side, 'a') AS a_gpu_ns,
           of_side(gpu_ns, side, 'b') AS b_gpu_ns
    FROM summed GROUP BY name
)
SELECT *, b_host_ns + b_gpu_ns - a_host_ns - a_gpu_ns AS change_ns
FROM compared
ORDER BY abs(change_ns) DESC, module
LIMIT coalesce(getvariable('top'), 20)
