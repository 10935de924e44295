-- fact: Graph annotations that do not match any kernel.
-- into: recorder_finding
-- needs: gpu_ops
-- when: call = 'launch_graph'
SELECT trace_id, 'annotations_unmatched', 'warning', count(*),
       format('{} annotates {:,} nodes of graphs, and no kernel is of one of them: it is of another run, or '
           || 'was written before the graphs were instantiated', regexp_extract(path, '[^/]*$'), count(*)),
       NULL, NULL
FROM graph_annotation
LEFT JOIN (SELECT DISTINCT trace_id, node_id, TRUE AS is_met FROM replayed_kernels) USING (trace_id, node_id)
GROUP BY trace_id, path HAVING count(is_met) = 0
