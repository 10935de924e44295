-- question: Which steps of an inference server were prefill or decode, with how many tokens and GPU time?
-- since: 0.1
-- param top (integer, default 1000): the number of steps
-- columns name
-- column phase (text): prefill, decode, mixed or empty, by the name
-- columns start_ns, host_ns
-- column prefill_requests (count): number of requests in prefill; NULL: unknown
-- column prefill_tokens (count): prompt tokens in this step; NULL: unknown
-- column decode_requests (count): number of requests in decode; NULL: unknown
-- column decode_tokens (count): generated tokens in this step; NULL: unknown
-- columns gpu_ops, gpu_ns
-- column gpu_time_per_token (ns per token): gpu_ns over the step's tokens; NULL: some are unknown
-- doubts: no_gpu_ops, no_annotations, unlinked_gpu_ops, absurd_duration
WITH asked_step AS (FROM server_step WHERE is_asked(trace_id))
SELECT
    trace_id, name, CASE WHEN mode = 'MIXED' OR prefill_requests > 0 AND decode_requests > 0 THEN 'mixed'
        WHEN prefill_requests > 0 THEN 'prefill'
        WHEN decode_requests > 0 THEN 'decode' ELSE 'empty' END AS phase,
    start_ns, dur_ns AS host_ns, prefill_requests, prefill_tokens, decode_requests, decode_tokens, gpu_ops,
    gpu_ns::BIGINT AS gpu_ns, gpu_ns / nullif(prefill_tokens + decode_tokens, 0) AS gpu_time_per_token
FROM launched_inside('asked_step')
ORDER BY trace_id, start_ns, name
LIMIT coalesce(getvariable('top'), 1000)
