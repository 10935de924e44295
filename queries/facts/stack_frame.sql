-- fact: A stack of a memory snapshot: its innermost frame, and the stack of the caller.
-- of: memory_before
CREATE TABLE stack_frame (
    trace_id INTEGER, stack_id BIGINT,
    parent_id BIGINT,  -- the caller's stack; 0: none
    depth     INTEGER, -- from 0, the outermost
    name      VARCHAR, -- FILE(LINE): FUNCTION
    -- The innermost line of the user's program, else of an installed package; without one, the backward node
    -- or operator that allocated, else the innermost line of PyTorch or Python.
    place     VARCHAR,
    cpu_op    VARCHAR, -- the innermost operator; NULL: no frame of C++ tells
    phase     VARCHAR, -- what its innermost frame with a phase does: forward, backward ...; NULL: none has
    in_backward BOOLEAN, -- whether a backward pass runs it, such as a forward that is computed again
    traits    VARCHAR[], -- those of any of its frames
    file VARCHAR, line BIGINT, function VARCHAR
);
WITH RECURSIVE frame AS MATERIALIZED (
    SELECT trace_id, (args->>'stack')::BIGINT AS stack_id, (args->>'parent')::BIGINT AS parent_id,
           (args->>'depth')::INTEGER AS depth, args->>'file' AS file, (args->>'line')::BIGINT AS line,
           args->>'function' AS function, format('{}({}): {}', file, line, function) AS name
    FROM event WHERE category = 'memory_snapshot' AND name = 'stack_frame'
),
meaning AS (
    SELECT *, traits_of('python', name) AS python, traits_of('stack', name) AS traits,
           frame_phase(name) AS phase, NOT has(python, 'source_line') AS is_native
    FROM (SELECT name, any_value(function) AS function FROM frame GROUP BY name)
),
-- PyTorch's operators are at::_ops::NAME_OVERLOAD::call; an operator of TORCH_LIBRARY is a function in a
-- namespace of its own. Operators that only allocate do not say who asked them to.
symbol AS (
    SELECT *, regexp_extract(function, '^at::_ops::(\w+)::(?:call|redispatch)\(', 1) AS of_aten,
           regexp_extract(function, '^at::(?:native::|\(anonymous namespace\)::)?(\w+)\(', 1) AS of_at,
           regexp_extract(function, '(\w*Backward\w*)(?:<.*>)?::apply\(', 1) AS of_node,
           regexp_extract(function, '^(?:void |at::Tensor )?((\w+)(?:::\w+)+)[(<]', ['name', 'space']) AS own
    FROM meaning WHERE is_native
),
called AS (
    SELECT name, nullif(of_node, '') AS node,
           CASE WHEN regexp_matches(coalesce(nullif(of_aten, ''), of_at), '^_?(new_)?empty|^resize')
                THEN NULL
                WHEN of_aten <> '' THEN concat('aten::', regexp_replace(of_aten,
                    '(_dim)?_[A-Z]\w*$|_(out|self|dtype_layout|memory_format)$', ''))
                WHEN of_at <> '' THEN concat('at::', of_at)
                WHEN own.space NOT IN ('', 'at', 'c10', 'c10d', 'caffe2', 'torch', 'std', '__gnu_cxx',
                    'pybind11', 'thrust', 'cub', 'google', 'boost', 'fmt', '_GLOBAL__N_1') THEN own.name
           END AS operator
    FROM symbol
),
known AS MATERIALIZED (
    SELECT f.*, m.phase, m.traits, node, operator,
           CASE WHEN NOT is_native THEN name END AS python_line,
           CASE WHEN NOT is_native AND NOT has(python, 'library') THEN name END AS own_line,
           CASE WHEN NOT has(m.traits, 'installed') AND NOT has(m.traits, 'starts_program')
               THEN own_line END AS program_line
    FROM frame AS f JOIN meaning AS m USING (name) LEFT JOIN called USING (name)
),
placed AS (
    SELECT trace_id, stack_id, parent_id, depth, name, file, line, function, phase, traits, node, operator,
           python_line, own_line, program_line, phase IS NOT DISTINCT FROM 'backward' AS in_backward
    FROM known WHERE parent_id = 0
    UNION ALL
    SELECT k.trace_id, k.stack_id, k.parent_id, k.depth, k.name, k.file, k.line, k.function,
           coalesce(k.phase, p.phase), CASE WHEN k.traits = [] THEN p.traits
               ELSE list_distinct(list_concat(p.traits, k.traits)) END,
           coalesce(k.node, p.node), coalesce(k.operator, p.operator), coalesce(k.python_line, p.python_line),
           coalesce(k.own_line, p.own_line), coalesce(k.program_line, p.program_line),
           p.in_backward OR k.phase IS NOT DISTINCT FROM 'backward'
    FROM placed AS p JOIN known AS k ON k.trace_id = p.trace_id AND k.parent_id = p.stack_id
)
SELECT trace_id, stack_id, parent_id, depth, name,
       coalesce(program_line, own_line, node, operator, python_line, 'C++ without an operator'),
       operator, phase, in_backward, traits, file, line, function
FROM placed
