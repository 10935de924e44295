-- Where in the program the events of a trace come from, in a few words: for remedies.

-- The place of each of these events of the host (a relation with trace_id and event_id, by its name): the
-- innermost line of the program around it; where stacks were not recorded, the module, else the outermost
-- operator. And the innermost operator around it or itself, and that operator's id.
CREATE OR REPLACE MACRO places_of(events) AS TABLE
WITH RECURSIVE around AS (
    SELECT c.trace_id, c.event_id, c.event_id AS around_id, 0 AS level
    FROM (SELECT DISTINCT trace_id, event_id FROM query_table(events)) AS c
    UNION ALL
    SELECT a.trace_id, a.event_id, h.parent_id, level + 1
    FROM around AS a JOIN host_slice AS h ON a.trace_id = h.trace_id AND a.around_id = h.event_id
    WHERE h.parent_id IS NOT NULL
)
SELECT
    a.trace_id, a.event_id,
    coalesce(
        arg_min(o.name, level) FILTER (is_program_line(traits)),
        arg_min(module_name(o.name), level) FILTER (has(traits, 'module')),
        arg_max(o.name, level) FILTER (kind = 'cpu_op')
    ) AS place,
    arg_min(o.name, level) FILTER (kind = 'cpu_op') AS cpu_op,
    arg_min(o.event_id, level) FILTER (kind = 'cpu_op') AS cpu_op_id
FROM around AS a
LEFT JOIN (SELECT trace_id, event_id, name, kind, traits FROM slices) AS o ON a.trace_id = o.trace_id
    AND a.around_id = o.event_id
GROUP BY a.trace_id, a.event_id;
