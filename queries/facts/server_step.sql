-- fact: A step of an inference server, by the range that the server annotates, the outermost one.
-- needs: slice_label
-- when: has(traits, 'server_step')
-- "execute_context_1(888_788544)_generation_0(0)": https://github.com/vllm-project/vllm (vllm/v1/worker)
-- "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)": the same, on ROCm
-- "execute_new_1_cached_31": earlier (requests only; those of which a part was read count as cached)
-- "step[DECODE bs=32]", "step[EXTEND bs=1 toks=107]": SGLang's ForwardMode
-- https://github.com/sgl-project/sglang/blob/main/python/sglang/srt/model_executor/forward_batch_info.py
CREATE TABLE server_step (
    trace_id INTEGER, event_id BIGINT, name VARCHAR, pid BIGINT, tid BIGINT, start_ns BIGINT, end_ns BIGINT,
    dur_ns BIGINT,
    prefill_requests BIGINT, -- requests in prefill; NULL here and in the next three columns: unknown
    prefill_tokens   BIGINT, -- their tokens in this step
    decode_requests  BIGINT, -- requests in decode
    decode_tokens    BIGINT, -- these tokens
    kind VARCHAR             -- prefill, decode, mixed or pass (neither)
);
WITH range AS (
    SELECT trace_id, event_id, name, pid, tid, start_ns, end_ns, dur_ns,
           regexp_extract(name,
               '^execute_(?:\d+_)?context_(\d+)\((?:sq)?(\d+)[^)]*\)_generation_(\d+)\((?:sq)?(\d+)[^)]*\)',
               ['prefills', 'prefill_tokens', 'decodes', 'decode_tokens']) AS v,
           regexp_extract(name, '^execute_new_(\d+)_cached_(\d+)$', ['prefills', 'decodes']) AS w,
           regexp_extract(name, '\b(EXTEND|PREFILL|DRAFT_EXTEND|DECODE|TARGET_VERIFY|MIXED)\w* bs=(\d+)',
               ['mode', 'requests']) AS s,
           regexp_extract(name, '\b(?:toks|tokens|num_tokens)=(\d+)', 1) AS tokens
    FROM annotations WHERE side = 'host' AND has(traits, 'server_step')
)
SELECT trace_id, event_id, name, pid, tid, start_ns, end_ns, dur_ns,
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
           WHEN is_prefill OR decode_requests = 0 THEN 0 END) AS decode_tokens,
       CASE WHEN s.mode = 'MIXED' OR prefill_requests > 0 AND decode_requests > 0 THEN 'mixed'
           WHEN prefill_requests > 0 THEN 'prefill' WHEN decode_requests > 0 THEN 'decode' ELSE 'pass' END
           AS kind
FROM (SELECT *, s.mode IN ('EXTEND', 'PREFILL', 'DRAFT_EXTEND') AS is_prefill,
             s.mode IN ('DECODE', 'TARGET_VERIFY') AS is_decode FROM range)
WHERE v.prefills <> '' OR w.prefills <> '' OR s.mode <> ''
QUALIFY is_outermost((trace_id, pid, tid), start_ns, end_ns)
