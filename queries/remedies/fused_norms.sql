-- question: Which norms, activations and losses are written in pieces although PyTorch has one operator?
-- since: 0.1
-- title: Use fused norms, activations and losses
-- causes: memory-bandwidth, launch
-- when: has(traits, 'part_of_norm'); regexp_matches(name, '^aten::_?(mean|erf|tanh|log)_?$')
-- needs: The same formula: epsilon, the type of its sums and the approximation (gelu: tanh or erf).
-- caveat: Only the forward pass is counted: the backward pass gains too. rms_norm has one kernel only in
--     recent versions of PyTorch.
-- blind: no_shapes
-- before:
--     variance = x.float().pow(2).mean(-1, keepdim=True)
--     y = weight * (x.float() * torch.rsqrt(variance + eps)).to(x.dtype)
--
--     y = 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x ** 3)))
--
--     loss = -torch.log(torch.softmax(logits, -1)).gather(1, target[:, None]).mean()
-- after:
--     y = F.rms_norm(x, x.shape[-1:], weight, eps)
--
--     y = F.gelu(x, approximate="tanh")
--
--     loss = F.cross_entropy(logits, target)
-- risks: Results differ in the last bits. In fp16, check that sums taken in fp32 still are.
-- check: tracekit query after.json fusion_savings; tracekit diff before.json after.json
-- sources: https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#fuse-operations
--     https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.rms_norm.html
--     https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.gelu.html
-- column factor (fraction of the time taken): of a GPU op, what remains if only the first input and the last
--     output pass through memory, at least the shortest piece; 0 for the host's work up to the last piece
-- doubts: no_gpu_ops, no_shapes, unlinked_gpu_ops, no_stacks
-- The pieces run one after another on a stream. Each has a letter, and each kind of chain a pattern of them:
-- c casts to float, C back, so that a chain does not take the first cast of the next one.
-- https://docs.pytorch.org/docs/stable/nn.functional.html
-- https://github.com/huggingface/transformers/blob/main/src/transformers/activations.py
WITH work AS (
    SELECT *, regexp_replace(name, '^aten::_?(\w*?)_?$', '\1') AS plain, texts_of(types) AS t
    FROM all_work WHERE is_asked(trace_id)
        AND kind IN ('elementwise', 'copy', 'reduction', 'softmax') AND len(gpu_op_ids) = 1 AND is_kernels
),
placed AS (
    SELECT trace_id, event_id, start_ns, dur_ns,
           row_number() OVER (PARTITION BY trace_id, device_id, stream ORDER BY start_ns, event_id) AS place
    FROM gpu_ops WHERE trace_id IN (SELECT trace_id FROM work)
),
piece AS (
    SELECT w.trace_id, w.device_id, w.stream, w.event_id, known_from, w.dims, w.busy_ns, w.read_bytes,
           w.written_bytes,
           gpu_op_ids[1] AS gpu_op_id, p.start_ns, p.dur_ns, place,
           place - row_number() OVER (
               PARTITION BY w.trace_id, w.device_id, w.stream ORDER BY place) AS island,
           CASE WHEN kind = 'copy'
                THEN CASE WHEN t[1] = t[2] THEN '-' WHEN t[1] = 'float' THEN 'c' ELSE 'C' END
                ELSE coalesce(MAP {'pow': 'p', 'square': 'p', 'mul': 'm', 'mean': 'M', 'add': 'a', 'sub': 's',
                    'rsqrt': 'r', 'sqrt': 'q', 'div': 'd', 'var': 'v', 'std': 'v', 'tanh': 't', 'erf': 'e',
                    'softmax': 'x', 'log': 'l'}[plain], '-') END AS letter
    FROM work AS w JOIN placed AS p ON w.trace_id = p.trace_id AND w.gpu_op_ids[1] = p.event_id
),
follow AS (
    SELECT *, string_agg(letter, '') OVER (
        PARTITION BY trace_id, device_id, stream, island ORDER BY place
        ROWS BETWEEN CURRENT ROW AND thresholds().most_pieces FOLLOWING) AS letters
    FROM piece
),
matched AS (
    SELECT *, regexp_extract(letters, '^c?(p|m)MarmC?m?C?') AS rms_norm,
           regexp_extract(letters, '^c?M(s(p|m)Ms?a(qd|rm)|v[samd]{1,3}[qr]?s?[md])m?a?C?') AS layer_norm,
           regexp_extract(letters, '^((m?pma|mm+a)mtamm?|m?[md]eamm?)') AS gelu,
           regexp_extract(letters, '^xl') AS log_softmax,
           CASE WHEN rms_norm <> '' THEN 'rms_norm' WHEN layer_norm <> '' THEN 'layer_norm'
                WHEN gelu <> '' THEN 'gelu' WHEN log_softmax <> '' THEN 'log_softmax' END AS goal,
           place + greatest(len(rms_norm), len(layer_norm), len(gelu), len(log_softmax)) - 1 AS last_place
    FROM follow
),
-- A chain that begins inside another one is part of it.
chain AS (
    SELECT trace_id, device_id, stream, island, event_id AS first_id, gpu_op_id AS chain_id,
           goal, dims AS shape, place, last_place
    FROM matched WHERE goal IS NOT NULL
    QUALIFY (place > max(last_place) OVER (
        PARTITION BY trace_id, device_id, stream ORDER BY place
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) IS NOT FALSE
),
member AS (
    SELECT chain_id, first_id, goal, shape, p.*, last_place,
           greatest(
               (first(read_bytes) OVER whole + last(written_bytes) OVER whole)
                   / sum(read_bytes + written_bytes) OVER whole,
               min(busy_ns) OVER whole / sum(busy_ns) OVER whole) AS factor
    FROM chain AS c JOIN piece AS p ON c.trace_id = p.trace_id AND c.device_id = p.device_id
        AND c.stream = p.stream AND c.island = p.island AND p.place BETWEEN c.place AND c.last_place
    WINDOW whole AS (PARTITION BY c.trace_id, c.chain_id ORDER BY p.place
        ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
),
call AS (
    SELECT * EXCLUDE (place, event_id), place AS turn, event_id AS op_id, first_id AS event_id, dur_ns AS ns,
           goal || ', ' || (shapes_of(shape)[1])::VARCHAR AS told
    FROM member WHERE factor < 1
),
at_place AS (FROM placed_ops('call')),
detailed_op AS (FROM detailed('at_place'))
SELECT trace_id, place, detail, 'op' AS target, gpu_op_id AS event_id, NULL AS pid, NULL AS tid, start_ns,
       dur_ns, factor
FROM detailed_op
UNION ALL
-- From the first piece's call to the last one's, which stands for the operator's.
SELECT t.trace_id, any_value(place), any_value(detail), 'overhead', arg_min(op_id, s.ts_ns), s.pid, s.tid,
       min(s.ts_ns), max(s.ts_ns) - min(s.ts_ns), 0
FROM detailed_op AS t JOIN event_row AS s ON t.trace_id = s.trace_id AND op_id = s.event_id
WHERE known_from = 'call'
GROUP BY t.trace_id, chain_id, s.pid, s.tid
