-- When operators of a backward pass and steps of an optimizer began in processes.
SELECT trace_id, pid, start_ns, has(traits, 'backward') AS is_backward FROM slices
WHERE pid IS NOT NULL AND trace_id IN (SELECT unnest($traces)) AND kind IN ('cpu_op', 'annotation')
  AND (has(traits, 'backward') OR has(traits, 'optimizer_step'))
ORDER BY trace_id, start_ns
