-- The call sites of a trace's events, in a few words: for remedies.

-- The name of an event; NULL: of none.
CREATE OR REPLACE MACRO name_of(of_trace, of_event) AS (
    SELECT l.name FROM event_row AS e(e_trace, e_event, e_label) JOIN label AS l ON e_label = l.label_id
    WHERE e_trace = of_trace AND e_event = of_event);

-- The name of the innermost line of the program, else of the innermost frame.
CREATE OR REPLACE MACRO line_of(of_trace, of_line, of_frame) AS
    frame_name(name_of(of_trace, coalesce(of_line, of_frame)));

-- A slice of the host with its place: the innermost line of the program that it is or is inside; without
-- recorded stacks, the module, else the outermost operator. And the innermost operator, frame and module.
CREATE OR REPLACE VIEW call_site AS
SELECT trace_id, event_id, cpu_op_id, o.name AS cpu_op, o.traits AS op_traits, python_id, line_id, module_id,
       CASE WHEN line_id IS NULL AND module_id IS NOT NULL THEN module_name(p.name) ELSE p.name END AS place
FROM thread_slice LEFT JOIN slice_label AS p ON place_label = p.label_id
LEFT JOIN slice_label AS o ON op_label = o.label_id;

-- Rows of a relation (trace_id, place, told, ns) with `detail`: the text (told) of most time at that place.
CREATE OR REPLACE MACRO detailed(rows) AS TABLE
SELECT *, arg_max(told, (told_ns, told)) OVER (PARTITION BY trace_id, place) AS detail
FROM (SELECT *, sum(ns) OVER (PARTITION BY trace_id, place, told) AS told_ns FROM query_table(rows));

-- GPU ops (trace_id, gpu_op_id, and event_id: the launch, the operator, or NULL) with the call site of their
-- operator. In a replay, it is that of the captured launch, or from the kernel's annotation.
CREATE OR REPLACE MACRO placed_ops(ops) AS TABLE
WITH known AS (
    SELECT o.* REPLACE (CASE WHEN g.capture_trace_id = o.trace_id
                   AND coalesce(o.event_id, g.launch_id) = g.launch_id
               THEN g.capture_launch_id ELSE o.event_id END AS event_id),
           CASE WHEN g.capture_trace_id IS DISTINCT FROM o.trace_id
               THEN coalesce(g.python_line, g.modules[-1]) END AS known_place
    FROM query_table(ops) AS o LEFT JOIN graph_site AS g
      ON o.trace_id = g.trace_id AND o.gpu_op_id = g.event_id
)
SELECT k.* EXCLUDE known_place, coalesce(known_place, place) AS place
FROM known AS k LEFT JOIN call_site USING (trace_id, event_id);

-- The rows of a remedy that changes GPU ops: those of a relation (with trace_id, event_id, target, gpu_op_id,
-- start_ns, dur_ns, factor, told and ns, by its name), where event_id is as in placed_ops.
CREATE OR REPLACE MACRO changed_ops(ops) AS TABLE
WITH at_place AS (FROM placed_ops(ops))
SELECT trace_id, place, detail, target, gpu_op_id AS event_id, NULL AS pid, NULL AS tid, start_ns, dur_ns,
       factor
FROM detailed('at_place');

-- How many launches of a relation a trace's median step makes, and how many marked steps make some.
CREATE OR REPLACE MACRO step_launches(launches) AS TABLE
SELECT trace_id, median(n) AS launches, count(*) AS steps FROM (
    SELECT l.trace_id, count(*) AS n FROM query_table(launches) AS l ASOF JOIN steps AS s
      ON l.trace_id = s.trace_id AND l.start_ns >= s.start_ns
    WHERE l.start_ns < s.end_ns GROUP BY l.trace_id, s.event_id)
GROUP BY trace_id;
