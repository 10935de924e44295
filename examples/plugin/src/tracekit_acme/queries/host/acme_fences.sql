-- question: How often does the program call acmeFence, and how long does it wait there?
-- columns name
-- column calls (count): calls of acmeFence
-- column wait_ns (ns): their time
-- doubts: no_gpu_ops
SELECT trace_id, name, count(*) AS calls, sum(dur_ns)::BIGINT AS wait_ns
FROM slices
WHERE name = 'acmeFence' AND is_asked(trace_id)
GROUP BY trace_id, name
ORDER BY trace_id
