-- When operators of a backward pass and steps of an optimizer began in a process.
SELECT start_ns, has(traits, 'backward') AS is_backward FROM slices
WHERE trace_id = $trace AND pid = $pid AND kind IN ('cpu_op', 'annotation')
  AND (has(traits, 'backward') OR has(traits, 'optimizer_step'))
ORDER BY start_ns
