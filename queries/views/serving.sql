-- Steps of inference servers, by the ranges that the servers annotate.

-- The GPU ops of steps that only generate, with so few requests that matrix products take as long as reading
-- their weights: `tokens` are generated at once, and `most_tokens` could be. `is_product`: it reads weights.
CREATE OR REPLACE VIEW decoded_ops AS
WITH server_step AS (
    SELECT trace_id, event_id AS step_id, pid, tid, start_ns, end_ns, generated_tokens(name) AS tokens
    FROM annotations WHERE side = 'host' AND has(traits, 'server_step') AND prompt_tokens(name) = 0
        AND is_asked(trace_id)
)
SELECT g.trace_id, g.event_id, g.name, g.start_ns, g.dur_ns, g.launch_id, g.pid, g.tid, g.is_graph, step_id,
       tokens, g.class = 'gemm' AS is_product,
       thresholds().few_tokens_share * coalesce(p.flop_per_s['bf16'], p.flop_per_s['fp16'])
           / p.memory_bytes_per_s AS most_tokens
FROM gpu_ops AS g ASOF JOIN server_step AS s
  ON g.trace_id = s.trace_id AND g.pid = s.pid AND g.tid = s.tid AND g.launch_start_ns >= s.start_ns
JOIN device_peaks AS p ON g.trace_id = p.trace_id AND g.device_id = p.device_id
WHERE g.launch_start_ns < s.end_ns AND tokens > 0 AND tokens <= most_tokens;
