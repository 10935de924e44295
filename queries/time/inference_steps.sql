-- question: Which steps of an inference server were prefill or decode, with how many tokens and GPU time?
-- param top (integer, default 1000): the number of steps
-- columns name
-- column phase (text): prefill, decode, mixed or empty, by the name
-- columns start_ns, host_ns
-- column prefill_requests (count): requests whose prompt is read; NULL: unknown
-- column prefill_tokens (count): their tokens in this step; NULL: unknown
-- column decode_requests (count): requests that get their next tokens; NULL: unknown
-- column decode_tokens (count): these tokens; NULL: unknown
-- columns gpu_ops, gpu_ns
-- column gpu_time_per_token (ns per token): gpu_ns over its tokens; NULL: some are unknown
-- doubts: no_gpu_ops, no_annotations, unlinked_gpu_ops, absurd_duration
-- Names: views/names.sql; earlier, vLLM's were execute_new_1_cached_31 (requests only; those of which a part
-- was read count as cached). SGLang names its ForwardMode:
-- https://github.com/sgl-project/sglang/blob/main/python/sglang/srt/model_executor/forward_batch_info.py
WITH range AS (
    SELECT trace_id, pid, tid, name, start_ns, end_ns, dur_ns,
           regexp_extract(name,
               '^execute_(?:\d+_)?context_(\d+)\((?:sq)?(\d+)[^)]*\)_generation_(\d+)\((?:sq)?(\d+)[^)]*\)',
               ['prefills', 'prefill_tokens', 'decodes', 'decode_tokens']) AS v,
           regexp_extract(name, '^execute_new_(\d+)_cached_(\d+)$', ['prefills', 'decodes']) AS w,
           regexp_extract(name, '\b(EXTEND|PREFILL|DRAFT_EXTEND|DECODE|TARGET_VERIFY|MIXED)\w* bs=(\d+)',
               ['mode', 'requests']) AS s,
           regexp_extract(name, '\b(?:toks|tokens|num_tokens)=(\d+)', 1) AS tokens
    FROM annotations WHERE side = 'host' AND is_asked(trace_id)
),
parsed_step AS (
    SELECT trace_id, pid, tid, name, start_ns, end_ns, dur_ns, s.mode AS mode,
           coalesce(TRY_CAST(v.prefills AS BIGINT), TRY_CAST(w.prefills AS BIGINT),
               CASE WHEN is_prefill THEN TRY_CAST(s.requests AS BIGINT) WHEN is_decode THEN 0 END)
               AS prefill_requests,
           coalesce(TRY_CAST(v.prefill_tokens AS BIGINT), CASE WHEN is_prefill THEN TRY_CAST(tokens AS BIGINT)
               WHEN is_decode OR prefill_requests = 0 THEN 0 END) AS prefill_tokens,
           coalesce(TRY_CAST(v.decodes AS BIGINT), TRY_CAST(w.decodes AS BIGINT),
               CASE WHEN is_decode THEN TRY_CAST(s.requests AS BIGINT) WHEN is_prefill THEN 0 END)
               AS decode_requests,
           coalesce(TRY_CAST(v.decode_tokens AS BIGINT),
               CASE WHEN s.mode = 'DECODE' THEN TRY_CAST(s.requests AS BIGINT)
               WHEN is_prefill OR decode_requests = 0 THEN 0 END) AS decode_tokens
    FROM (SELECT *, s.mode IN ('EXTEND', 'PREFILL', 'DRAFT_EXTEND') AS is_prefill,
                 s.mode IN ('DECODE', 'TARGET_VERIFY') AS is_decode FROM range)
    WHERE v.prefills <> '' OR w.prefills <> '' OR s.mode <> ''
    QUALIFY is_outermost((trace_id, pid, tid), start_ns, end_ns)
)
SELECT
    trace_id, name, CASE WHEN mode = 'MIXED' OR prefill_requests > 0 AND decode_requests > 0 THEN 'mixed'
        WHEN prefill_requests > 0 THEN 'prefill'
        WHEN decode_requests > 0 THEN 'decode' ELSE 'empty' END AS phase,
    start_ns, dur_ns AS host_ns, prefill_requests, prefill_tokens, decode_requests, decode_tokens, gpu_ops,
    gpu_ns::BIGINT AS gpu_ns, gpu_ns / nullif(prefill_tokens + decode_tokens, 0) AS gpu_time_per_token
FROM launched_inside('parsed_step')
ORDER BY trace_id, start_ns, name
LIMIT coalesce(getvariable('top'), 1000)
