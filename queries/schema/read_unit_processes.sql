-- The processes that launch work, with their launches and those of their trace.
SELECT trace_id, pid, count(*), sum(count(*)) OVER (PARTITION BY trace_id)
FROM _scratch.unit_launch WHERE pid IS NOT NULL GROUP BY trace_id, pid ORDER BY trace_id, pid
