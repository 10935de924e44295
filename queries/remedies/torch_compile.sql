-- question: Which modules run operator by operator, so that torch.compile could fuse and dispatch their work?
-- since: 0.1
-- title: Compile the model with torch.compile
-- causes: dispatch, python, launch, memory-bandwidth
-- frameworks: PyTorch
-- unless: name = 'engine' AND value = 'vLLM'
-- applied_as: compile
-- in_loops: true
-- effort: medium
-- needs: PyTorch 2 or later, a compiler for the device, and shapes and control flow that mostly stay the
--     same.
-- caveat: Dispatch and Python are assumed to halve, and to vanish for operators that run inside others; only
--     a trial shows the true saving. Fused operators are assumed to shrink with the bytes that they move.
--     Intermediates that the backward pass reads are written even if their operators are fused.
-- blind: no_runtime_calls, no_operators
-- before:
--     model = Model().to(device)
-- after:
--     model = Model().to(device)
--     model.compile()                    # or each repeated block: for block in model.blocks: block.compile()
-- risks: The first calls compile, for seconds to minutes, and so does each new shape. Code that the compiler
--     cannot follow (`.item()`, prints, data-dependent branches) breaks the graph and runs as before: remove
--     reads of values first. Results differ in the last digits.
-- check: TORCH_LOGS=graph_breaks,recompiles python train.py; tracekit diff before.json after.json
-- sources: https://docs.pytorch.org/docs/stable/torch.compiler.html
--     https://docs.pytorch.org/tutorials/recipes/regional_compilation.html
--     https://docs.pytorch.org/assets/pytorch2-2.pdf
-- doubts: no_gpu_ops, no_runtime_calls, no_shapes, unlinked_gpu_ops
-- Fusion, and fewer trips through Python and the dispatcher; measured on 180 models in the last source.
WITH traced AS (
    SELECT trace_id FROM gpu_ops WHERE kind = 'kernel' AND is_asked(trace_id) AND trace_id IN (
        SELECT trace_id FROM setting WHERE value = 'torch.compile, which generates no kernel')
    GROUP BY trace_id HAVING count(*) FILTER (class IN ('elementwise', 'reduction', 'copy'))
        > thresholds().captured_majority * count(*)
),
-- Users who compile a part of a module chose it.
outer_module AS (FROM outer_modules),
root AS (FROM outer_module WHERE NOT holds_compiled OR trace_id IN (FROM traced)),
-- The backward pass of a module: autograd's nodes with the sequence number of one of its operators.
numbered AS (
    SELECT trace_id, event_id, pid, tid, start_ns, end_ns, sequence_number,
           has(traits, 'autograd_node') AS is_backward
    FROM cpu_ops WHERE trace_id IN (SELECT trace_id FROM outer_module) AND sequence_number IS NOT NULL
),
forward AS (
    SELECT o.trace_id, sequence_number, any_value(r.name) AS name
    FROM (FROM numbered WHERE NOT is_backward) AS o ASOF JOIN root AS r
      ON o.trace_id = r.trace_id AND o.pid = r.pid AND o.tid = r.tid AND o.start_ns >= r.start_ns
    WHERE o.start_ns < r.end_ns
    GROUP BY ALL
),
part AS (
    SELECT trace_id, event_id, pid, tid, name, start_ns, end_ns FROM root UNION ALL
    SELECT trace_id, event_id, pid, tid, f.name, start_ns, end_ns
    FROM (FROM numbered WHERE is_backward) JOIN forward AS f USING (trace_id, sequence_number)
    UNION ALL
    SELECT trace_id, event_id, pid, tid, NULL, start_ns, end_ns
    FROM slices SEMI JOIN (FROM thread_slice WHERE outer_op_id = event_id) USING (trace_id, event_id)
    WHERE is_asked(trace_id)
        AND trace_id NOT IN (SELECT trace_id FROM outer_module)
        -- Without modules, the trace does not show the rest of the model.
        AND trace_id NOT IN (
            SELECT trace_id FROM setting ANTI JOIN traced USING (trace_id) WHERE name = 'compiler')
),
outer_part AS (FROM part QUALIFY is_outermost((trace_id, pid, tid), start_ns, end_ns)),
waiting AS (FROM waiting_call WHERE is_read AND is_asked(trace_id)),
-- Each read of a value ends a compiled graph, and each step calls it: few launches hardly repay the guards.
uncut AS (
    SELECT l.trace_id, count(*) AS launches FROM launch_call AS l ASOF LEFT JOIN waiting AS w
      ON l.trace_id = w.trace_id AND l.end_ns <= w.start_ns
    WHERE is_asked(l.trace_id) GROUP BY l.trace_id, w.event_id
),
launched AS (
    FROM launch_call SEMI JOIN (SELECT trace_id FROM uncut GROUP BY trace_id
        HAVING sum(launches * launches) / sum(launches) >= thresholds().compiled_launches) USING (trace_id)
),
-- Some work stays: compiled code, graphs, reads, calls that stall, fused optimizers, collectives and input.
fixed AS (
    SELECT trace_id, pid, tid, start_ns, end_ns FROM slices JOIN (
        SELECT label_id, kind IN ('cpu_op', 'annotation', 'python') AND (activity = 'input'
                   OR list_has_any(traits, ['collective_call', 'apart_from_modules'])
                   OR compiled IS NOT NULL AND trace_id NOT IN (FROM traced)) AS stays
        FROM label JOIN slice_label USING (label_id) WHERE stays OR activity = 'runtime') USING (label_id)
    WHERE is_asked(trace_id) AND (stays OR dur_ns >= thresholds().stall_ns)
    UNION ALL
    SELECT trace_id, pid, tid, start_ns, end_ns FROM launched WHERE is_graph
    UNION ALL
    SELECT trace_id, pid, tid, ts_ns, ts_ns + dur_ns FROM event_row
    WHERE (trace_id, event_id) IN (SELECT (trace_id, cpu_op_id) FROM waiting)
),
fixed_call AS (FROM fixed QUALIFY is_outermost((trace_id, pid, tid), start_ns, end_ns)),
unit AS (
    SELECT u.* FROM outer_part AS u SEMI JOIN launched USING (trace_id, pid, tid)
    ASOF LEFT JOIN fixed_call AS k
      ON u.trace_id = k.trace_id AND u.pid = k.pid AND u.tid = k.tid AND u.start_ns >= k.start_ns
    WHERE (u.start_ns >= k.end_ns) IS NOT FALSE
),
-- Launches in a unit, outside the work that stays the same.
launch AS (
    SELECT l.*, u.event_id AS unit_id, u.name
    FROM launched AS l ASOF JOIN unit AS u
      ON l.trace_id = u.trace_id AND l.pid = u.pid AND l.tid = u.tid AND l.start_ns >= u.start_ns
    ASOF LEFT JOIN fixed_call AS k
      ON l.trace_id = k.trace_id AND l.pid = k.pid AND l.tid = k.tid AND l.start_ns >= k.start_ns
    WHERE l.start_ns < u.end_ns AND (l.start_ns >= k.end_ns) IS NOT FALSE
),
-- A product of fusion: the op that writes the intermediate runs inside the one that reads it.
share AS (
    SELECT trace_id, event_id, 1 - least(1, sum(intermediate) / any_value(moved)) AS factor,
           bool_or(is_first) AS vanishes
    FROM fusable_ops WHERE is_asked(trace_id) GROUP BY ALL
),
fused AS (
    SELECT l.*, event_id, g.start_ns AS op_start_ns, g.dur_ns, factor, vanishes
    FROM share JOIN gpu_ops AS g USING (trace_id, event_id) JOIN launch AS l USING (trace_id, launch_id)
),
gone AS (SELECT trace_id, launch_id FROM fused WHERE vanishes),
-- A unit's host work is cut by its launches and by the work that stays; its end cuts, too.
cut AS (
    SELECT trace_id, unit_id, start_ns, end_ns, (trace_id, launch_id) IN (FROM gone) AS vanishes FROM launch
    UNION ALL
    SELECT k.trace_id, u.event_id, k.start_ns, k.end_ns, FALSE
    FROM fixed_call AS k ASOF JOIN unit AS u
      ON k.trace_id = u.trace_id AND k.pid = u.pid AND k.tid = u.tid AND k.start_ns >= u.start_ns
    WHERE k.start_ns < u.end_ns
    UNION ALL
    SELECT trace_id, event_id, end_ns, end_ns, FALSE FROM unit
),
stretch AS (
    SELECT c.trace_id, u.name AS place, u.event_id, u.pid, u.tid,
           lag(c.end_ns, 1, u.start_ns)
               OVER (PARTITION BY c.trace_id, c.unit_id ORDER BY c.start_ns) AS start_ns,
           c.start_ns AS end_ns, vanishes
    FROM cut AS c JOIN unit AS u ON c.trace_id = u.trace_id AND c.unit_id = u.event_id
)
SELECT trace_id, place,
       if(trace_id IN (FROM traced), 'its compiler generates no code: see backend=', NULL) AS detail,
       'overhead' AS target, event_id, pid, tid, start_ns, end_ns - start_ns AS dur_ns,
       if(vanishes, 0, thresholds().compiled_overhead) AS factor
FROM stretch WHERE end_ns > start_ns AND trace_id NOT IN (SELECT trace_id FROM step_launches('launched')
    WHERE steps >= thresholds().fewest_alike AND launches < thresholds().compiled_launches)
UNION ALL
SELECT trace_id, name, NULL, 'overhead', unit_id, pid, tid, start_ns, end_ns - start_ns, 0
FROM fused WHERE vanishes
UNION ALL
SELECT trace_id, name, NULL, 'op', event_id, pid, tid, op_start_ns, dur_ns, factor FROM fused
