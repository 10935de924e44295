-- fact: What GPU ops show of a run's settings: graphs, and the kernels of products and attention.
-- into: setting
-- of: gpu_ops
WITH op AS (
    SELECT trace_id, event_id, launch_id, is_graph, dur_ns, n.class, format, backend, ops
    FROM gpu_ops JOIN slice_label AS n USING (label_id)
    JOIN (SELECT trace_id, count(*) AS ops FROM gpu_ops GROUP BY trace_id) USING (trace_id)
)
SELECT trace_id, 'cuda graphs',
       count(DISTINCT launch_id) || if(count(DISTINCT launch_id) = 1, ' launch', ' launches'),
       count(*) / any_value(ops), 'GPU ops', min(event_id)
FROM op WHERE is_graph GROUP BY trace_id
UNION ALL
SELECT trace_id, if(class = 'attention', 'attention', 'products') AS name,
       coalesce(if(class = 'attention', backend, format), 'unknown') AS value,
       sum(dur_ns) / nullif(sum(sum(dur_ns)) OVER (PARTITION BY trace_id, name), 0),
       'time of ' || name, min(event_id)
FROM op WHERE class IN ('gemm', 'convolution', 'attention') GROUP BY trace_id, name, value
