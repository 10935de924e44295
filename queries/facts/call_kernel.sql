-- fact: A kernel of an operator whose work its inputs alone do not tell, with these inputs.
-- of: operator_input, gpu_ops
-- when: kind = 'cpu_op' AND regexp_matches(work, '^(index|put|listed|routed_experts)\b')
CREATE TABLE _scratch.call_kernel AS
SELECT i.*, c.trace_id, c.event_id, g.name AS kernel, grid
FROM (
    SELECT trace_id, pid, tid, launch_start_ns, name, TRY_CAST(grid AS BIGINT[]) AS grid
    FROM gpu_ops WHERE kind = 'kernel' AND NOT is_graph
) AS g ASOF JOIN (
    FROM _scratch.operator_call WHERE kind IN ('index', 'put', 'listed', 'routed_experts')
) AS c ON g.trace_id = c.trace_id AND g.pid = c.pid AND g.tid = c.tid AND g.launch_start_ns >= c.start_ns
JOIN _scratch.operator_input AS i
  ON c.name = i.name AND c.dims = i.dims AND c.types IS NOT DISTINCT FROM i.types
    AND c.concrete IS NOT DISTINCT FROM i.concrete
WHERE g.launch_start_ns < c.end_ns
