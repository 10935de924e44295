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
    -- First of all, a trace needs modules: many have none.
    FROM cpu_ops JOIN (SELECT DISTINCT trace_id, TRUE AS is_nested FROM outer_module) USING (trace_id)
    WHERE if(is_nested, sequence_number, NULL) IS NOT NULL
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
-- A product of fusion: the op that writes the intermediate runs inside the one that reads it.
share AS (
    SELECT trace_id, event_id, launch_id, g.start_ns, g.dur_ns, factor, vanishes
    FROM (
        SELECT trace_id, event_id, 1 - least(1, sum(intermediate) / any_value(moved)) AS factor,
               bool_or(is_first) AS vanishes
        FROM fusable_ops WHERE is_asked(trace_id) GROUP BY ALL
    ) JOIN gpu_ops AS g USING (trace_id, event_id)
),
-- What cuts a thread's time, in order: work that stays the same, parts, and launches.
edge AS (
    SELECT *, 0::TINYINT AS turn, NULL AS event_id, NULL AS name, FALSE AS vanishes FROM fixed UNION ALL
    SELECT trace_id, pid, tid, start_ns, end_ns, 1, event_id, name, FALSE FROM part
    SEMI JOIN launched USING (trace_id, pid, tid) UNION ALL
    SELECT trace_id, pid, tid, start_ns, end_ns, 2, launch_id, NULL,
           (trace_id, launch_id) IN (SELECT (trace_id, launch_id) FROM share WHERE vanishes)
    FROM launched
),
-- A unit is an outermost part outside the work that stays the same; it has the launches in it outside that.
held AS (
    SELECT *, max(end_ns) FILTER (turn = 0) OVER before AS fixed_ns,
           max(end_ns) FILTER (turn = 1) OVER before AS part_ns
    FROM edge
    WINDOW before AS (PARTITION BY trace_id, pid, tid ORDER BY start_ns, turn, end_ns DESC
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    QUALIFY (start_ns >= fixed_ns) IS NOT FALSE
        AND CASE WHEN turn = 1 THEN (start_ns >= part_ns) IS NOT FALSE ELSE start_ns < part_ns END
),
cut AS (
    SELECT trace_id, pid, tid, turn, event_id, start_ns, end_ns,
           last_value(if(turn = 1, event_id, NULL) IGNORE NULLS) OVER so_far AS unit_id,
           nullif(last_value(if(turn = 1, coalesce(name, ''), NULL) IGNORE NULLS) OVER so_far, '') AS place,
           max(end_ns) FILTER (turn = 1) OVER so_far AS until_ns,
           lead(start_ns) OVER so_far AS next_ns, lead(vanishes) OVER so_far AS next_vanishes
    FROM held
    WINDOW so_far AS (PARTITION BY trace_id, pid, tid ORDER BY start_ns, turn, end_ns DESC)
    QUALIFY start_ns < until_ns
),
fused AS (
    SELECT c.trace_id, place, unit_id, pid, tid, c.start_ns, c.end_ns, s.event_id, s.start_ns AS op_start_ns,
           dur_ns, factor, vanishes
    FROM share AS s JOIN cut AS c ON s.trace_id = c.trace_id AND s.launch_id = c.event_id AND turn = 2
),
-- A unit's host work is cut by its launches and by the work that stays; its end cuts, too.
stretch AS (
    SELECT trace_id, place, unit_id, pid, tid, if(turn = 1, start_ns, end_ns) AS start_ns,
           least(next_ns, until_ns) AS end_ns, next_ns < until_ns AND next_vanishes AS vanishes
    FROM cut
)
SELECT trace_id, place,
       if(trace_id IN (FROM traced), 'its compiler generates no code: see backend=', NULL) AS detail,
       'overhead' AS target, unit_id AS event_id, pid, tid, start_ns, end_ns - start_ns AS dur_ns,
       if(vanishes, 0, thresholds().compiled_overhead) AS factor
FROM stretch WHERE end_ns > start_ns AND trace_id NOT IN (SELECT trace_id FROM step_launches('launched')
    WHERE steps >= thresholds().fewest_alike AND launches < thresholds().compiled_launches)
UNION ALL
SELECT trace_id, place, NULL, 'overhead', unit_id, pid, tid, start_ns, end_ns - start_ns, 0 FROM fused
WHERE vanishes UNION ALL
SELECT trace_id, place, NULL, 'op', event_id, pid, tid, op_start_ns, dur_ns, factor FROM fused
