-- Where in the program the events of a trace come from, in a few words: for remedies.

-- The place of each of these events of the host (a relation with trace_id and event_id, by its name): the
-- innermost line of the program that it is or is inside; where stacks were not recorded, the module, else the
-- outermost operator. And the innermost operator, with its id.
CREATE OR REPLACE MACRO places_of(events) AS TABLE
SELECT e.trace_id, e.event_id,
       CASE WHEN line_id IS NULL AND module_id IS NOT NULL THEN module_name(p.name) ELSE p.name END AS place,
       o.name AS cpu_op, cpu_op_id
FROM (SELECT DISTINCT trace_id, event_id FROM query_table(events)) AS e
LEFT JOIN host_site USING (trace_id, event_id)
LEFT JOIN slices AS p
  ON e.trace_id = p.trace_id AND coalesce(line_id, module_id, outer_op_id) = p.event_id
LEFT JOIN slices AS o ON e.trace_id = o.trace_id AND cpu_op_id = o.event_id;
