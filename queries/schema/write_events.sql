-- The elements of the events array of the trace in the variable `trace`, as JSON text in the file's order;
-- $chosen may choose some by event_id. Keys have a fixed order; microseconds have no trailing zeros. Events
-- that the columns do not hold in full are as in the file.
WITH original AS (FROM verbatim WHERE trace_id = getvariable('trace'))
SELECT text, is_event, event_id
FROM (
    SELECT event_id, TRUE AS is_event, 0 AS byte_offset,
        coalesce(o.text, encode(coalesce(raw::VARCHAR, concat(
        '{', concat_ws(',',
            '"ph":' || to_json(phase), '"cat":' || to_json(category), '"name":' || to_json(name),
            '"pid":' || pid, '"tid":' || tid,
            '"ts":' || microseconds(ts_ns), '"dur":' || microseconds(dur_ns),
            '"id":' || flow_id, '"bp":' || to_json(flow_bind), '"s":' || to_json(scope), '"args":' || args),
        '}')))) AS text
    FROM event LEFT JOIN (FROM original WHERE is_event) AS o USING (event_id)
    WHERE event.trace_id = getvariable('trace') $chosen
    UNION ALL
    SELECT event_id, FALSE, byte_offset, text FROM original
    WHERE NOT is_event AND event_id IS NOT NULL $chosen
)
ORDER BY event_id, is_event, byte_offset
