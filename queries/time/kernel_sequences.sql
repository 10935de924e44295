-- question: Which sequences of kernels do operators launch repeatedly?
-- params trace, top
-- param operator (text, default all): only under operators whose name contains this; by default outermost
--     ones
-- params shortest
-- columns trace_id
-- column operator (text): the operator, with everything that it calls on its thread
-- column kernels (list of text): the kernels that one call of it launched, in order of launch
-- columns length, count, total_ns
-- column per_call_ns (ns): total_ns over count
-- doubts: no_gpu_ops, unlinked_gpu_ops
WITH named AS (
    SELECT trace_id, pid, tid, CASE WHEN getvariable('operator') IS NULL THEN '' ELSE name END AS name,
           name AS operator, event_id,
           start_ns, end_ns
    FROM cpu_ops
    WHERE trace_id = coalesce(getvariable('trace'), trace_id)
        AND (getvariable('operator') IS NULL OR contains(name, getvariable('operator')))
),
call AS (SELECT * FROM outermost('named', of_name := TRUE)),
kernel AS (
    SELECT l.trace_id, l.pid, l.tid, launch_start_ns, l.event_id, k.name, k.dur_ns
    FROM gpu_op_launch AS l JOIN gpu_ops AS k USING (trace_id, event_id)
    WHERE l.kind = 'kernel'
),
sequence AS (
    SELECT c.trace_id, c.operator, c.event_id, list(k.name ORDER BY launch_start_ns, k.event_id) AS kernels,
           sum(k.dur_ns) AS ns
    FROM kernel AS k ASOF JOIN call AS c ON k.trace_id = c.trace_id AND k.pid = c.pid AND k.tid = c.tid
        AND k.launch_start_ns >= c.start_ns
    WHERE k.launch_start_ns < c.end_ns
    GROUP BY c.trace_id, c.operator, c.event_id
)
SELECT trace_id, operator, kernels, len(kernels) AS length, count(*) AS count, sum(ns)::BIGINT AS total_ns,
       sum(ns)::BIGINT // count(*) AS per_call_ns
FROM sequence
WHERE len(kernels) >= coalesce(getvariable('shortest'), 2)
GROUP BY trace_id, operator, kernels
ORDER BY total_ns DESC, operator, kernels, trace_id
LIMIT coalesce(getvariable('top'), 20)
