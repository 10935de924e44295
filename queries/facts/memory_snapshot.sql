-- fact: That a trace is a memory snapshot.
-- of: memory_before
-- into: recorder_finding
WITH counted AS (
    SELECT trace_id, list_sum(list_transform(json_keys(host), lambda key: (host->>key)::BIGINT)) AS records
    FROM (SELECT trace_id, metadata->'memory_snapshot'->'left_out' AS host FROM trace)
)
SELECT DISTINCT trace_id, 'memory_snapshot', 'info', 1,
       'this is a memory snapshot: it tells who holds memory, and nothing of where time goes'
           || coalesce(format(' (records of the host''s pinned memory are not used: {:,})',
               records::BIGINT), ''),
       NULL, NULL
FROM memory_before LEFT JOIN counted USING (trace_id)
