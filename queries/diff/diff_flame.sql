-- question: Which call paths appeared, disappeared, or changed in time, from a to b?
-- since: 0.1
-- of: several traces
-- params a, b
-- columns node, parent, depth, name
-- column kind (text): as in flame_graph
-- columns is_library, is_wait, change, a_count, b_count, a_host_ns, b_host_ns, a_gpu_ns, b_gpu_ns
-- column host_ns (ns): a_host_ns and b_host_ns: the frame's width in a drawing of host time
-- column gpu_ns (ns): a_gpu_ns and b_gpu_ns
-- columns host_from_ns, gpu_from_ns
-- doubts: no_operators, no_stacks, unlinked_gpu_ops
-- Paths below thresholds().drawn_share of both times are left out. A frame's width is the sum over both runs,
-- so removed and added frames appear side by side.
WITH path AS MATERIALIZED (FROM call_paths('compared_runs', NULL, NULL, by_thread := FALSE)),
compared AS MATERIALIZED (
    SELECT 1 AS trace_id, node, parent, depth, any_value(name) AS name, any_value(kind) AS kind,
           bool_or(is_library) AS is_library, bool_or(is_wait) AS is_wait,
           of_side(count / steps, side, 'a') AS a_count,
           of_side(count / steps, side, 'b') AS b_count, of_side(host_ns // steps, side, 'a') AS a_host_ns,
           of_side(host_ns // steps, side, 'b') AS b_host_ns,
           of_side(gpu_ns // steps, side, 'a') AS a_gpu_ns, of_side(gpu_ns // steps, side, 'b') AS b_gpu_ns,
           a_host_ns + b_host_ns AS host_ns, a_gpu_ns + b_gpu_ns AS gpu_ns
    FROM path JOIN compared_runs USING (trace_id) GROUP BY node, parent, depth
)
SELECT node, parent, depth, name, kind, is_library, is_wait,
       change_of(a_count, b_count, b_host_ns - a_host_ns) AS change, a_count, b_count, a_host_ns, b_host_ns,
       a_gpu_ns, b_gpu_ns, host_ns, gpu_ns, host_from_ns, gpu_from_ns
FROM laid_out('compared') ORDER BY depth, host_from_ns, gpu_from_ns
