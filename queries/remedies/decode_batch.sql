-- question: Which steps generate for so few requests that reading the weights takes most of the time?
-- since: 0.1
-- title: Decode more requests at once
-- causes: memory-bandwidth, latency
-- when: has(traits, 'server_step')
-- is_batch: true
-- needs: Enough requests to fill the batch, and memory for their caches.
-- caveat: The price is for twice the batch: products that read the same weights take as long as before,
--     everything else on the device twice as long. A mixture of experts reads more experts' weights for more
--     tokens.
-- before:
--     vllm serve MODEL --max-num-seqs 16
-- after:
--     vllm serve MODEL --max-num-seqs 64            # sglang: --max-running-requests, --cuda-graph-max-bs
--     # Where one user's latency counts: speculative decoding checks several guessed tokens for one
--     # reading of the weights.
-- risks: Each token takes longer, although there are more tokens in all. Graphs have to be captured for the
--     larger batch, too.
-- check: tracekit query after.json unit_times
-- sources: https://docs.vllm.ai/en/latest/configuration/optimization.html
--     https://arxiv.org/abs/2211.17192
-- doubts: no_gpu_ops, unlinked_gpu_ops, unknown_device
SELECT trace_id, NULL AS place,
       format('{} tokens a step, weights bound it up to {:.0f}', tokens, most_tokens) AS detail,
       'op' AS target, event_id, NULL AS pid, NULL AS tid, start_ns, dur_ns, 2 AS factor
FROM decoded_ops WHERE NOT is_product AND 2 * tokens <= most_tokens
