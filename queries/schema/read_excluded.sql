-- Which conditions on settings exclude not all traces. $tests are the conditions as columns e0, e1 and so on,
-- and $kept is whether each of them fails for some trace.
SELECT 1, [$kept]
FROM (SELECT $tests FROM (SELECT trace_id FROM trace) LEFT JOIN setting USING (trace_id) GROUP BY trace_id)
