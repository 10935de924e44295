-- The traces that replay graphs, before facts are built: trace_id and path.
SELECT trace_id, path FROM trace
WHERE trace_id > ?
  AND trace_id IN (SELECT trace_id FROM label WHERE name ILIKE '%graph%' AND call_of(name) = 'launch_graph')
ORDER BY ALL
