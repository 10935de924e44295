-- The steps that an inference server annotates; those in processes that launch nothing are any process's (pid
-- NULL).
SELECT s.trace_id, l.pid, name, start_ns, end_ns, kind,
       list_sum([prefill_requests, decode_requests])::BIGINT AS requests,
       prefill_tokens + decode_tokens AS tokens
FROM server_step AS s LEFT JOIN (SELECT DISTINCT trace_id, pid FROM _scratch.unit_launch) AS l
  ON s.trace_id = l.trace_id AND s.pid = l.pid
WHERE s.pid IS NOT NULL AND s.trace_id IN (SELECT unnest($traces))
ORDER BY s.trace_id, start_ns, event_id
