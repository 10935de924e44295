-- question: Which sequences of kernels do operators launch repeatedly?
-- since: 0.1
-- params top
-- param operator (text, default all): only under operators whose name contains this; by default outermost
--     ones, of captured operators the outermost that began in the capture
-- param shortest (integer, default 2): the minimum number of kernels in a sequence
-- column operator (text): the operator, including everything that it calls on its thread
-- column known_from (text): call: its thread launched them; capture by node, or capture by order: a graph's
--     replays ran them for a captured call, and do not count again for the operator around the replay
-- column kernels (list of text): the kernels that a call launched, in order, or that a replay ran for it
-- column length (count): the length of the sequence
-- columns count, total_ns
-- column per_call_ns (ns): total_ns over count
-- doubts: no_gpu_ops, unlinked_gpu_ops
WITH call AS (
    SELECT trace_id, pid, tid, name AS operator, event_id, start_ns, end_ns
    FROM cpu_ops WHERE is_asked(trace_id)
        AND (getvariable('operator') IS NULL OR contains(name, getvariable('operator')))
    QUALIFY is_outermost(
        (trace_id, pid, tid, if(getvariable('operator') IS NULL, '', name)), start_ns, end_ns)
),
replayed AS (
    SELECT *, CASE WHEN getvariable('operator') IS NULL THEN 1 ELSE list_position(operators,
        list_filter(operators, lambda each: contains(each, getvariable('operator')))[-1]) END AS level
    FROM graph_site WHERE len(operators) > 0 AND is_asked(trace_id)
),
kernel AS (
    FROM gpu_ops ANTI JOIN replayed USING (trace_id, event_id) WHERE kind = 'kernel'
),
sequence AS (
    SELECT c.trace_id, c.operator, 'call' AS known_from,
           list(k.name ORDER BY launch_start_ns, k.event_id) AS kernels, sum(k.dur_ns) AS ns
    FROM kernel AS k ASOF JOIN call AS c ON k.trace_id = c.trace_id AND k.pid = c.pid AND k.tid = c.tid
        AND k.launch_start_ns >= c.start_ns
    WHERE k.launch_start_ns < c.end_ns
    GROUP BY c.trace_id, c.operator, c.event_id
    UNION ALL
    SELECT trace_id, operators[level], op_from, list(name ORDER BY place), sum(dur_ns)
    FROM replayed WHERE level IS NOT NULL
    GROUP BY trace_id, launch_id, device_id, capture_id, operators[level], operator_ids[level], op_from
)
SELECT trace_id, operator, known_from, kernels, len(kernels) AS length, count(*) AS count,
       sum(ns)::BIGINT AS total_ns, sum(ns)::BIGINT // count(*) AS per_call_ns
FROM sequence
WHERE len(kernels) >= coalesce(getvariable('shortest'), 2)
GROUP BY trace_id, operator, known_from, kernels
ORDER BY total_ns DESC, operator, known_from, kernels, trace_id
LIMIT coalesce(getvariable('top'), 20)
