-- The call sites of a trace's events, in a few words: for remedies.

-- The rows of a relation of events of the host (with trace_id and event_id, by its name), each with its call
-- site: the innermost line of the program that it is or is inside; without recorded stacks, the module, else
-- the outermost operator. And the innermost operator, with its id and traits, and the ids of the innermost
-- frame and module.
CREATE OR REPLACE MACRO placed(events) AS TABLE
SELECT e.*, o.name AS cpu_op, cpu_op_id, o.traits AS op_traits, python_id, module_id,
       CASE WHEN line_id IS NULL AND module_id IS NOT NULL THEN module_name(p.name) ELSE p.name END AS place
FROM query_table(events) AS e LEFT JOIN host_site AS s ON e.trace_id = s.trace_id AND e.event_id = s.event_id
LEFT JOIN slice_label AS p ON place_label = p.label_id LEFT JOIN slice_label AS o ON op_label = o.label_id;

-- Rows of a relation (with trace_id, place, told and ns, by its name) with `detail`: the text (told) at their
-- call site that takes most time (ns).
CREATE OR REPLACE MACRO detailed(rows) AS TABLE
SELECT *, arg_max(told, (told_ns, told)) OVER (PARTITION BY trace_id, place) AS detail
FROM (SELECT *, sum(ns) OVER (PARTITION BY trace_id, place, told) AS told_ns FROM query_table(rows));

-- The rows of a remedy that changes GPU ops: those of a relation (with trace_id, event_id, target, gpu_op_id,
-- start_ns, dur_ns, factor, told and ns, by its name), where event_id is the launch or the operator, or NULL.
CREATE OR REPLACE MACRO changed_ops(ops) AS TABLE
WITH at_place AS (FROM placed(ops))
SELECT trace_id, place, detail, target, gpu_op_id AS event_id, NULL AS pid, NULL AS tid, start_ns, dur_ns,
       factor
FROM detailed('at_place');
