-- question: Where does compiled code fall back to Python and look itself up again, or compile again?
-- title: Compile without graph breaks and recompilation
-- causes: python, dispatch, compilation
-- when: compiled IS NOT NULL
-- effort: medium
-- needs: Code at the break that the compiler can follow: no reads of values on the host, prints or calls into
--     code that it cannot trace.
-- caveat: Counted are the guards and prologues of what resumes, and repeated compilation; what could be fused
--     across a break comes on top.
-- before:
--     model = torch.compile(model)
-- after:
--     model = torch.compile(model, fullgraph=True)      # an error names each line that breaks the graph
-- risks: fullgraph=True raises where it used to fall back. Shapes that change need dynamic=True or
--     mark_dynamic, which can make kernels slower.
-- check: TORCH_LOGS=graph_breaks,recompiles python train.py; tracekit query compile_overhead after.json
-- sources: https://docs.pytorch.org/docs/stable/torch.compiler_profiling_torch_compile.html
--     https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html
--     https://docs.pytorch.org/tutorials/intermediate/torch_compile_tutorial.html
-- params trace
-- columns trace_id
-- column place (text): the line at which compiled code resumes; where the stack does not tell it, the region;
--     of recompilation, the line or operator around it
-- column detail (text): the compiled region, or: compiles again
-- column target (text): host: guards and prologue of a region inside another one; compilation that recurs
-- columns event_id, pid, tid, start_ns, dur_ns, factor
-- doubts: no_compiled_code, no_stacks
-- A region covers all that its rewritten bytecode runs, so what resumes after a graph break is a region
-- inside it.
-- Its function is named after the line, torch_dynamo_resume_in_NAME_at_LINE:
-- https://github.com/pytorch/pytorch/blob/main/torch/_dynamo/resume_execution.py
WITH part AS MATERIALIZED (
    SELECT trace_id, event_id, pid, tid, name, start_ns, end_ns, dur_ns, compiled AS part, traits
    FROM slices AS s WHERE compiled IS NOT NULL AND trace_id = coalesce(getvariable('trace'), trace_id)
),
region AS MATERIALIZED (FROM part WHERE has(traits, 'compiled_region')),
tree AS (FROM nested('region')),
inner_region AS MATERIALIZED (
    SELECT r.*, depth FROM region AS r JOIN tree USING (trace_id, event_id) WHERE parent_id IS NOT NULL
),
resumed AS MATERIALIZED (
    SELECT label_id,
           regexp_replace(name, '\(\d+\): torch_dynamo_resume_in_(.*)_at_(\d+)$', '(\2): \1') AS line
    FROM slice_label WHERE has(traits, 'resumed')
),
-- The frame of the function that resumes is in its region, or just around it.
frame AS (
    SELECT i.trace_id, i.event_id, arg_min(line, abs(s.start_ns - i.start_ns)) AS line
    FROM inner_region AS i JOIN host_slice AS h ON i.trace_id = h.trace_id
        AND (h.parent_id = i.event_id OR i.event_id = h.event_id)
    JOIN slices AS s ON h.trace_id = s.trace_id
        AND s.event_id = CASE WHEN h.parent_id = i.event_id THEN h.event_id ELSE h.parent_id END
    JOIN resumed USING (label_id)
    GROUP BY ALL
),
placed AS (
    SELECT i.*, coalesce(line, name) AS place
    FROM inner_region AS i LEFT JOIN frame USING (trace_id, event_id)
),
-- Guards are checked before the region, its inputs are prepared inside it.
entry AS (
    SELECT trace_id, event_id, pid, tid, name, start_ns, end_ns, dur_ns, part FROM part
    WHERE part IN ('guards', 'prologue') AND EXISTS (FROM inner_region)
),
outer_entry AS (FROM outermost('entry')),
paid AS (
    SELECT e.*, r.place, r.name AS region
    FROM (FROM outer_entry WHERE part = 'guards') AS e ASOF JOIN placed AS r
      ON e.trace_id = r.trace_id AND e.pid = r.pid AND e.tid = r.tid AND e.end_ns <= r.start_ns
    ASOF JOIN region AS n
      ON e.trace_id = n.trace_id AND e.pid = n.pid AND e.tid = n.tid AND e.end_ns <= n.start_ns
    WHERE n.event_id = r.event_id
    UNION ALL
    SELECT e.*, r.place, r.name
    FROM (FROM outer_entry WHERE part = 'prologue') AS e ASOF JOIN region AS n
      ON e.trace_id = n.trace_id AND e.pid = n.pid AND e.tid = n.tid AND e.start_ns >= n.start_ns
    JOIN placed AS r ON n.trace_id = r.trace_id AND n.event_id = r.event_id
    WHERE e.start_ns < n.end_ns
),
compiling AS (FROM part WHERE part = 'compilation'),
compilation AS MATERIALIZED (FROM outermost('compiling')),
-- Compiling is over with the start of a run. Later, it is compiling again.
middle AS (
    SELECT trace_id, median(launch_start_ns) AS at_ns FROM gpu_op_launch
    WHERE trace_id IN (SELECT trace_id FROM compilation) GROUP BY trace_id
),
at_place AS (FROM placed('compilation')),
again AS (
    SELECT c.* FROM at_place AS c JOIN middle USING (trace_id) WHERE c.start_ns > at_ns
    QUALIFY count(*) OVER (PARTITION BY trace_id, place) >= thresholds().fewest_alike
)
SELECT trace_id, place, region AS detail, 'host' AS target, event_id, pid, tid, start_ns, dur_ns, 0 AS factor
FROM paid
UNION ALL
SELECT trace_id, place, 'compiles again', 'host', event_id, pid, tid, start_ns, dur_ns, 0 FROM again
ORDER BY trace_id, place, start_ns
