-- The events of the trace in the variable `trace`, as JSON text in the file's order. Keys have a fixed order;
-- microseconds have no trailing zeros.
SELECT coalesce(raw::VARCHAR, concat(
    '{', concat_ws(',',
        '"ph":' || to_json(phase), '"cat":' || to_json(category), '"name":' || to_json(name),
        '"pid":' || pid, '"tid":' || tid,
        '"ts":' || microseconds(ts_ns), '"dur":' || microseconds(dur_ns),
        '"id":' || flow_id, '"bp":' || to_json(flow_bind), '"s":' || to_json(scope), '"args":' || args),
    '}')) AS text
FROM event
WHERE trace_id = getvariable('trace')
ORDER BY event_id
