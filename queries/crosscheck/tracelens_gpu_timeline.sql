-- question: What is TraceLens's GPU timeline?
-- since: 0.1
-- column is_recompute (boolean): ops launched while activation checkpointing ran a forward pass again
-- column computation_ns (ns): union of kernels and fills without 'nccl' in their name
-- column exposed_comm_ns (ns): union of kernels with 'nccl' in their name, not covered by computation
-- column exposed_memcpy_ns (ns): union of copies, not covered by computation or communication
-- column busy_ns (ns): the sum of these three
-- column idle_ns (ns): total minus busy
-- column total_ns (ns): from the first op's start to the last one's end
-- column total_comm_ns (ns): union of communication, covered or not
-- column total_memcpy_ns (ns): union of copies, covered or not
-- All devices and streams are merged. Ops without a launch in the trace are left out, and, except a graph's
-- kernels, ops that no arrow (flow ac2g) joins with their launch.
-- https://github.com/AMD-AGI/TraceLens/blob/main/TraceLens/TreePerf/gpu_event_analyser.py (the types and
-- unions) https://github.com/AMD-AGI/TraceLens/blob/main/TraceLens/Trace2Tree/trace_to_tree.py
-- (add_gpu_ops_to_tree: which ops it links)
WITH rerun AS (
    SELECT trace_id, pid, tid, start_ns, end_ns FROM python_frames
    WHERE name LIKE '%torch/utils/checkpoint.py%: recompute_fn'
),
arrow AS (
    SELECT trace_id, flow_id AS correlation FROM flows WHERE category = 'ac2g'
    GROUP BY ALL HAVING bool_or(side = 'start') AND bool_or(side = 'end')
),
linked AS (
    SELECT
        o.trace_id, o.event_id, o.start_ns, o.end_ns,
        CASE WHEN o.kind = 'memcpy' THEN 'memcpy' WHEN contains(o.name, 'nccl') THEN 'communication'
            ELSE 'computation' END AS type,
        EXISTS (FROM rerun AS r WHERE r.trace_id = o.trace_id AND r.pid = o.pid AND r.tid = o.tid
                AND o.launch_start_ns >= r.start_ns AND o.launch_start_ns < r.end_ns) AS is_recompute
    FROM gpu_ops AS o WHERE launch_id IS NOT NULL AND is_asked(o.trace_id)
      AND ((o.trace_id, o.correlation) IN (SELECT (trace_id, correlation) FROM arrow)
           OR (o.kind = 'kernel' AND contains(lower(launch_name), 'graphlaunch')))
),
running AS (
    SELECT {'trace_id': trace_id, 'is_recompute': is_recompute} AS key, type AS label, start_ns, end_ns
    FROM linked
),
total AS (SELECT key, max(end_ns) - min(start_ns) AS total_ns FROM running GROUP BY key),
stretch AS (SELECT key, labels, sum(end_ns - start_ns)::BIGINT AS ns FROM interval_labels('running')
    GROUP BY key, labels),
part AS (
    SELECT
        key, sum_where(ns, list_contains(labels, 'computation')) AS computation_ns,
        sum_where(ns, labels IN (['communication'], ['communication', 'memcpy'])) AS exposed_comm_ns,
        sum_where(ns, labels = ['memcpy']) AS exposed_memcpy_ns, coalesce(sum(ns), 0)::BIGINT AS busy_ns,
        sum_where(ns, list_contains(labels, 'communication')) AS total_comm_ns,
        sum_where(ns, list_contains(labels, 'memcpy')) AS total_memcpy_ns
    FROM total LEFT JOIN stretch USING (key) GROUP BY key
)
SELECT
    key.trace_id, key.is_recompute, computation_ns, exposed_comm_ns, exposed_memcpy_ns, busy_ns,
    total_ns - busy_ns AS idle_ns, total_ns, total_comm_ns, total_memcpy_ns
FROM part JOIN total USING (key)
ORDER BY key
