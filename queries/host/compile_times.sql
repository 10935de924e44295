-- question: How long did torch.compile take for each frame of the program, phase by phase?
-- since: 0.1
-- column frame (text): Dynamo's number of a function, and of its compilation (0/1: the second one of
--     the first function); NULL: the range does not tell, nor one around it
-- column phase (text): a range of the compiler
-- columns count, total_ns, self_ns
-- doubts: no_compiled_code
-- The ranges: https://github.com/pytorch/pytorch/blob/main/torch/_dynamo/utils.py (dynamo_timed); their frame
-- is an argument of theirs or of a range around them.
WITH RECURSIVE phase AS (
    SELECT trace_id, event_id, name, dur_ns, t.parent_id, t.thread, t.self_ns, args->>'compile_id' AS frame
    FROM slices JOIN thread_slice AS t USING (trace_id, event_id)
    WHERE compiled = 'compilation' AND is_asked(trace_id)
),
placed AS (
    SELECT trace_id, event_id, thread, frame FROM phase
    WHERE parent_id IS NULL OR (thread, parent_id) NOT IN (SELECT (thread, event_id) FROM phase)
    UNION ALL
    SELECT p.trace_id, p.event_id, p.thread, coalesce(p.frame, around.frame)
    FROM placed AS around JOIN phase AS p ON p.thread = around.thread AND p.parent_id = around.event_id
)
SELECT trace_id, placed.frame, replace(name, ' (dynamo_timed)', '') AS phase, count(*) AS count,
       sum(dur_ns)::BIGINT AS total_ns, sum(self_ns)::BIGINT AS self_ns
FROM placed JOIN phase USING (trace_id, event_id)
GROUP BY ALL
ORDER BY trace_id, total_ns DESC, placed.frame, phase
