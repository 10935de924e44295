-- question: Where does compiled code fall back to Python and look itself up again, or compile again?
-- since: 0.1
-- title: Avoid graph breaks and recompilation
-- causes: python, dispatch, compilation
-- when: has(traits, 'compiled_region') OR compiled = 'compilation'
-- effort: medium
-- needs: Code at the break that the compiler can follow: no reads of values on the host, prints or calls into
--     code that it cannot trace.
-- caveat: It counts the guards and prologues of resumed code, and repeated compilation; gains from fusion
--     across a break come on top.
-- before:
--     model = torch.compile(model)
-- after:
--     model = torch.compile(model, fullgraph=True)      # an error names each line that breaks the graph
-- risks: fullgraph=True raises where it used to fall back. Shapes that change need dynamic=True or
--     mark_dynamic, which can make kernels slower.
-- check: TORCH_LOGS=graph_breaks,recompiles python train.py; tracekit query after.json compile_overhead
-- sources: https://docs.pytorch.org/docs/stable/torch.compiler_profiling_torch_compile.html
--     https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html
--     https://docs.pytorch.org/tutorials/intermediate/torch_compile_tutorial.html
-- doubts: no_compiled_code, no_stacks
-- A region covers all that its rewritten bytecode runs, so what resumes after a graph break is a region
-- inside it. Its function is named after the line, torch_dynamo_resume_in_NAME_at_LINE:
-- https://github.com/pytorch/pytorch/blob/main/torch/_dynamo/resume_execution.py
WITH part AS (
    SELECT trace_id, event_id, pid, tid, name, start_ns, end_ns, dur_ns, compiled AS part, traits
    FROM slices WHERE compiled IS NOT NULL AND is_asked(trace_id)
),
region AS (FROM part WHERE has(traits, 'compiled_region')),
-- The frame of the function that resumes is in its region, or just around it.
resumed AS (
    SELECT s.trace_id, event_id, parent_id, s.start_ns,
           regexp_replace(name, '\(\d+\): torch_dynamo_resume_in_(.*)_at_(\d+)$', '(\2): \1') AS line
    FROM slices AS s JOIN thread_slice USING (trace_id, event_id) WHERE has(traits, 'resumed')
),
inner_region AS (
    SELECT r.*, h.parent_id AS around_id FROM region AS r JOIN thread_slice AS h USING (trace_id, event_id)
    QUALIFY NOT is_outermost((trace_id, r.pid, r.tid), start_ns, end_ns)
),
placed_region AS (
    SELECT i.trace_id, i.event_id, i.pid, i.tid, i.start_ns, i.name,
           coalesce(arg_min(line, abs(s.start_ns - i.start_ns)), i.name) AS place
    FROM inner_region AS i LEFT JOIN resumed AS s
      ON i.trace_id = s.trace_id AND (s.parent_id = i.event_id OR s.event_id = i.around_id)
    GROUP BY i.trace_id, i.event_id, i.pid, i.tid, i.start_ns, i.name
),
-- Guards are checked before the region; its inputs are prepared inside it.
outer_entry AS (
    FROM part WHERE part IN ('guards', 'prologue') AND EXISTS (FROM inner_region)
    QUALIFY is_outermost((trace_id, pid, tid), start_ns, end_ns)
),
entered AS (
    SELECT e.*, r.event_id AS region_id
    FROM (FROM outer_entry WHERE part = 'guards') AS e ASOF JOIN region AS r
      ON e.trace_id = r.trace_id AND e.pid = r.pid AND e.tid = r.tid AND e.end_ns <= r.start_ns
    UNION ALL
    SELECT e.*, r.event_id
    FROM (FROM outer_entry WHERE part = 'prologue') AS e ASOF JOIN region AS r
      ON e.trace_id = r.trace_id AND e.pid = r.pid AND e.tid = r.tid AND e.start_ns >= r.start_ns
    WHERE e.start_ns < r.end_ns
),
paid AS (
    SELECT e.*, r.place, r.name AS region
    FROM entered AS e JOIN placed_region AS r ON e.trace_id = r.trace_id AND e.region_id = r.event_id
),
compilation AS (
    FROM part WHERE part = 'compilation'
    QUALIFY is_outermost((trace_id, pid, tid), start_ns, end_ns)
),
-- Compiling is over with the start of a run. Later, it is compiling again.
middle AS (
    SELECT trace_id, median(launch_start_ns) AS at_ns FROM gpu_ops
    WHERE trace_id IN (SELECT trace_id FROM compilation) GROUP BY trace_id
),
again AS (
    SELECT c.*, place FROM compilation AS c LEFT JOIN call_site USING (trace_id, event_id)
    JOIN middle USING (trace_id) WHERE c.start_ns > at_ns
    QUALIFY count(*) OVER (PARTITION BY trace_id, place) >= thresholds().fewest_alike
)
SELECT trace_id, place, region AS detail, 'host' AS target, event_id, pid, tid, start_ns, dur_ns, 0 AS factor
FROM paid
UNION ALL
SELECT trace_id, place, 'compiles again', 'host', event_id, pid, tid, start_ns, dur_ns, 0 FROM again
