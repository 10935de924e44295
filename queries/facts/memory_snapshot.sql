-- fact: That a trace is a memory snapshot.
-- of: memory_before
-- into: recorder_finding
SELECT DISTINCT trace_id, 'memory_snapshot', 'info', 1,
       'this is a memory snapshot: it tells who holds memory, and nothing of where time goes', NULL, NULL
FROM memory_before
