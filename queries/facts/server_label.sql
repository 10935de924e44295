-- fact: A label of what a server's Python does, with its role.
-- needs: slice_label
-- when: kind = 'python' AND regexp_matches(name,
--     '(^|/)(vllm/(v1/(engine|core)|entrypoints|engine|core)|sglang/srt/(managers|entrypoints))/')
-- A worker alone runs none of these.
CREATE TABLE server_label (
    label_id BIGINT,
    -- waiting, executing, tokenizing, detokenizing, handling outputs, answering, exchanging or scheduling
    role VARCHAR
);
SELECT label_id, role
FROM (SELECT label_id, CASE WHEN has(traits, 'thread_wait') THEN 'waiting' ELSE server_role(name) END AS role
    FROM slice_label WHERE kind = 'python')
WHERE role IS NOT NULL
