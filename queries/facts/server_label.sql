-- fact: A label of what a server's Python does, with its role.
-- needs: slice_label
-- when: has(traits, 'of_vllm') OR has(traits, 'of_sglang')
CREATE TABLE server_label (
    label_id BIGINT,
    -- waiting, executing, tokenizing, detokenizing, handling outputs, answering, exchanging or scheduling
    role VARCHAR
);
SELECT label_id, role
FROM (SELECT label_id, CASE WHEN has(traits, 'thread_wait') THEN 'waiting' ELSE server_role(name) END AS role
    FROM slice_label WHERE kind = 'python')
WHERE role IS NOT NULL
