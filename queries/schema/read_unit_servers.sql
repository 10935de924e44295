-- The steps that an inference server annotates in a process, or in one that launches nothing.
SELECT name, start_ns, end_ns, kind, list_sum([prefill_requests, decode_requests])::BIGINT AS requests,
       prefill_tokens + decode_tokens AS tokens
FROM server_step
WHERE trace_id = $trace
  AND (pid = $pid OR pid NOT IN (SELECT pid FROM _scratch.unit_launch WHERE trace_id = $trace))
ORDER BY start_ns, event_id
