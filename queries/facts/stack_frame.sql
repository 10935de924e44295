-- fact: A stack of a memory snapshot: its innermost frame, and the stack of the caller.
-- of: memory_before
CREATE TABLE stack_frame (
    trace_id INTEGER, stack_id BIGINT,
    parent_id BIGINT,  -- the caller's stack; 0: none
    depth     INTEGER, -- from 0, the outermost
    name      VARCHAR, -- FILE(LINE): FUNCTION
    place     VARCHAR, -- the innermost frame that is a line of the program, else the innermost of all
    file VARCHAR, line BIGINT, function VARCHAR
);
WITH RECURSIVE frame AS MATERIALIZED (
    SELECT trace_id, (args->>'stack')::BIGINT AS stack_id, (args->>'parent')::BIGINT AS parent_id,
           (args->>'depth')::INTEGER AS depth, args->>'file' AS file, (args->>'line')::BIGINT AS line,
           args->>'function' AS function, format('{}({}): {}', file, line, function) AS name
    FROM event WHERE category = 'memory_snapshot' AND name = 'stack_frame'
),
of_program AS MATERIALIZED (
    SELECT name FROM (SELECT name, traits_of('python', name) AS traits FROM (SELECT DISTINCT name FROM frame))
    WHERE has(traits, 'source_line') AND NOT has(traits, 'library')
),
known AS MATERIALIZED (
    SELECT f.*, o.name AS program_line FROM frame AS f LEFT JOIN of_program AS o USING (name)
),
placed AS (
    SELECT *, program_line AS place FROM known WHERE parent_id = 0
    UNION ALL
    SELECT k.*, coalesce(k.program_line, p.place)
    FROM placed AS p JOIN known AS k ON k.trace_id = p.trace_id AND k.parent_id = p.stack_id
)
SELECT trace_id, stack_id, parent_id, depth, name, coalesce(place, name), file, line, function FROM placed
