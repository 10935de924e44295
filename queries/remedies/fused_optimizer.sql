-- question: Which optimizers step parameter by parameter or in several passes, though a fused one exists?
-- since: 0.1
-- title: Use the fused optimizer
-- causes: launch, dispatch, python, memory-bandwidth
-- when: has(traits, 'optimizer_step')
-- needs: An optimizer with such an implementation: Adam, AdamW and SGD have a fused one, most others a
--     foreach one; all parameters on the device.
-- caveat: Python's work for each parameter of a fused step is not counted. Without shapes, the device's own
--     work is assumed to stay the same.
-- blind: no_runtime_calls
-- before:
--     optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
-- after:
--     optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
--     # RMSprop, Adagrad ...: foreach=True
-- risks: Sums run in another order, so results differ in the last digits. foreach needs memory for
--     intermediates about as large as the parameters; fused does not.
-- check: tracekit diff before.json after.json
-- sources: https://docs.pytorch.org/docs/stable/optim.html
--     https://docs.pytorch.org/docs/stable/generated/torch.optim.AdamW.html
-- doubts: no_gpu_ops, no_runtime_calls, no_shapes, unknown_device
WITH stepper (optimizer, is_fusable) AS (VALUES
    ('Adam', TRUE), ('AdamW', TRUE), ('SGD', TRUE), ('Adagrad', FALSE), ('Adadelta', FALSE),
    ('Adamax', FALSE), ('ASGD', FALSE), ('NAdam', FALSE), ('RAdam', FALSE), ('RMSprop', FALSE),
    ('Rprop', FALSE)
),
called AS (
    SELECT s.*, optimizer, is_fusable FROM slices AS s JOIN (
        SELECT label_id, optimizer, is_fusable FROM slice_label JOIN stepper
          ON name = 'Optimizer.step#' || optimizer || '.step'
        WHERE kind IN ('cpu_op', 'annotation')
    ) USING (label_id)
    WHERE is_asked(s.trace_id)
),
-- A closure, which runs the model in the optimizer's step, ends with its backward pass, on any thread.
closure AS (
    SELECT s.trace_id, s.event_id, max(b.end_ns) AS done_ns
    FROM slices AS b SEMI JOIN (FROM slice_label WHERE has(traits, 'backward')) USING (label_id)
    ASOF JOIN called AS s ON b.trace_id = s.trace_id AND b.pid = s.pid AND b.start_ns >= s.start_ns
    WHERE b.end_ns < s.end_ns GROUP BY ALL
),
step AS (
    SELECT c.* REPLACE (coalesce(done_ns, start_ns) AS start_ns,
                        end_ns - coalesce(done_ns, start_ns) AS dur_ns)
    FROM called AS c LEFT JOIN closure USING (trace_id, event_id)
),
launched AS (
    SELECT s.trace_id, s.event_id AS step_id, l.event_id, l.launch_id, l.is_graph, h.cpu_op_id, n.name,
           n.compiled, is_fusable, optimizer
    FROM gpu_ops AS l ASOF JOIN step AS s
      ON l.trace_id = s.trace_id AND l.pid = s.pid AND l.tid = s.tid AND l.launch_start_ns >= s.start_ns
    LEFT JOIN thread_slice AS h ON l.trace_id = h.trace_id AND l.launch_id = h.event_id
    LEFT JOIN slice_label AS n ON h.op_label = n.label_id
    WHERE l.launch_start_ns < s.end_ns
),
-- One pass of the optimizer over the parameters is one operator for each of them, or one foreach operator.
pass AS (
    SELECT trace_id, step_id, name, count(DISTINCT launch_id) AS launches,
           count(DISTINCT cpu_op_id) AS calls, contains(name, '_foreach_') AS is_foreach,
           contains(name, '_fused_') OR starts_with(name, 'triton_')
               OR bool_or(compiled IS NOT NULL OR is_graph) AS is_fused
    FROM launched WHERE cpu_op_id IS NOT NULL GROUP BY trace_id, step_id, name
),
shape AS (
    SELECT trace_id, step_id AS event_id, sum(launches) AS launches, bool_or(is_foreach) AS is_foreach,
           bool_or(is_fused) AS is_fused, mode(launches ORDER BY launches DESC) AS tensors,
           CASE WHEN bool_or(is_foreach) THEN ceil(sum(launches) / sum(calls))
               ELSE ceil(tensors / thresholds().fused_tensors) END AS launches_a_pass
    FROM pass GROUP BY trace_id, step_id
),
slow AS (
    SELECT *, launches_a_pass * if(is_fusable, 1, ceil(launches / tensors)) AS launches_left
    FROM step JOIN shape USING (trace_id, event_id)
    WHERE NOT is_fused AND (is_fusable OR NOT is_foreach) AND launches_left < launches
),
-- A fused step reads and writes parameter, gradient and state once. Each parameter is written by one
-- addcdiv_ (Adam) or add_ (SGD, which first adds to the momentum, if it has any).
written AS (
    SELECT label_id, name FROM slice_label
    WHERE name IN ('aten::addcdiv_', 'aten::addcdiv', 'aten::add_', 'aten::mul_')
),
tensor AS (
    SELECT trace_id, step_id, name, optimizer,
           elements(shapes_of(args->'Input Dims')[1])
               * element_bytes(texts_of(args->'Input type')[1]) AS bytes
    FROM launched JOIN (SELECT trace_id, event_id AS cpu_op_id, args FROM event_row
        WHERE label_id IN (SELECT label_id FROM written))
        USING (trace_id, cpu_op_id)
    WHERE (trace_id, step_id) IN (SELECT (trace_id, event_id) FROM slow WHERE NOT is_foreach) AND is_fusable
        AND name IN (SELECT name FROM written)
),
moved AS (
    SELECT trace_id, step_id, CASE WHEN any_value(optimizer) = 'SGD'
               THEN 3 * sum_where(bytes, name = 'aten::add_') - sum_where(bytes, name = 'aten::mul_')
               ELSE 7 * sum_where(bytes, starts_with(name, 'aten::addcdiv')) END AS moved_bytes
    FROM tensor GROUP BY trace_id, step_id HAVING count(*) = count(bytes)
),
roof AS (
    SELECT n.trace_id, n.step_id, n.event_id, g.start_ns, g.dur_ns,
           moved_bytes * 1e9 / memory_bytes_per_s
               / nullif(sum(g.dur_ns) OVER (PARTITION BY n.trace_id, n.step_id), 0) AS factor
    FROM launched AS n JOIN moved AS m USING (trace_id, step_id)
    JOIN gpu_ops AS g ON n.trace_id = g.trace_id AND n.event_id = g.event_id
    JOIN device_peaks AS p ON g.trace_id = p.trace_id AND g.device_id = p.device_id
    WHERE moved_bytes > 0
),
part AS (
    SELECT trace_id, event_id AS step_id, 'overhead' AS target, event_id, start_ns, dur_ns,
           launches_left / launches AS factor FROM slow
    UNION ALL
    SELECT trace_id, step_id, 'op', event_id, start_ns, dur_ns, factor FROM roof WHERE factor < 1
)
SELECT p.trace_id, s.name AS place,
       CASE WHEN is_fusable THEN 'fused' ELSE 'foreach' END || '=True instead of '
       || CASE WHEN is_foreach THEN 'foreach' ELSE 'a loop' END AS detail,
       target, p.event_id, s.pid, s.tid, p.start_ns, p.dur_ns, p.factor
FROM part AS p JOIN slow AS s ON p.trace_id = s.trace_id AND p.step_id = s.event_id
