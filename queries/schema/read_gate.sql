-- Evaluates $condition over the figures of two runs ($figures), unless only one of them has GPU ops.
WITH run AS ($figures)
SELECT (
$condition
)::BOOLEAN
FROM (FROM run WHERE trace_id = $a) AS a, (FROM run WHERE trace_id = $b) AS b
WHERE (a.busy_ns IS NULL) = (b.busy_ns IS NULL)
