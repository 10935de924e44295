-- Steps of inference servers, by the ranges that the servers annotate.

-- The GPU ops of steps that only generate, with so few requests that matrix products take as long as reading
-- their weights: `tokens` are generated at once, and `most_tokens` could be. `is_product`: it reads weights;
-- `is_quantized`: by its name, weights of 8 bits or fewer.
CREATE OR REPLACE VIEW decoded_ops AS
SELECT g.trace_id, g.event_id, g.name, g.start_ns, g.dur_ns, g.launch_id, g.pid, g.tid, g.is_graph,
       s.event_id AS step_id, decode_tokens AS tokens, g.class = 'gemm' AS is_product,
       regexp_matches(g.name, '(?i)fp8|_f8|_b8|e4m3|e5m2|int8|_i8|fp4|e2m1|int4|awq|gptq|marlin')
           AS is_quantized,
       thresholds().few_tokens_share * coalesce(p.flop_per_s['bf16'], p.flop_per_s['fp16'])
           / p.memory_bytes_per_s AS most_tokens
FROM gpu_ops AS g ASOF JOIN (FROM server_step WHERE prefill_tokens = 0) AS s
  ON g.trace_id = s.trace_id AND g.pid = s.pid AND g.tid = s.tid AND g.launch_start_ns >= s.start_ns
JOIN device_peaks AS p ON g.trace_id = p.trace_id AND g.device_id = p.device_id
WHERE is_asked(g.trace_id) AND g.launch_start_ns < s.end_ns AND tokens > 0 AND tokens <= most_tokens;

-- The traces in which vLLM runs.
CREATE OR REPLACE VIEW vllm_traces AS
SELECT trace_id FROM setting WHERE name = 'engine' AND value = 'vLLM';

-- The stretches of a server's host threads with the role of what runs: that of the innermost frame with one;
-- `other`: none around it has one. Where no slice is open, nothing is known.
-- `which` is a trace_id; NULL: all traces.
CREATE OR REPLACE MACRO server_stretches(which) AS TABLE
WITH RECURSIVE slice AS MATERIALIZED (
    SELECT thread, h.event_id, parent_id, role
    FROM thread_slice AS h JOIN event_row USING (trace_id, event_id) LEFT JOIN server_label USING (label_id)
    WHERE trace_id = coalesce(which, trace_id) AND EXISTS (FROM server_label)
),
owned AS (
    SELECT thread, event_id, coalesce(role, 'other') AS role
    FROM slice WHERE role IS NOT NULL OR parent_id IS NULL
    UNION ALL
    SELECT s.thread, s.event_id, o.role
    FROM owned AS o JOIN slice AS s ON o.thread = s.thread AND o.event_id = s.parent_id
    WHERE s.role IS NULL
)
SELECT trace_id, pid, tid, s.thread, s.start_ns, s.end_ns, role
FROM owned JOIN thread_segment AS s USING (thread, event_id) JOIN host_thread USING (thread);
