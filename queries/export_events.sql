-- question: What were the events of a trace, as JSON text, in the file's order?
-- param trace (integer, default all): the trace_id to look at
-- column trace_id (id): the trace
-- column event_id (id): its place in the file
-- column text (JSON): the event; its keys stand in one order, numbers of microseconds without needless zeros
SELECT trace_id, event_id, coalesce(raw::VARCHAR, concat(
    '{', concat_ws(',',
        '"ph":' || to_json(phase), '"cat":' || to_json(category), '"name":' || to_json(name),
        '"pid":' || pid, '"tid":' || tid,
        '"ts":' || microseconds(ts_ns), '"dur":' || microseconds(dur_ns),
        '"id":' || flow_id, '"bp":' || to_json(flow_bind), '"s":' || to_json(scope), '"args":' || args),
    '}')) AS text
FROM event
WHERE trace_id = coalesce(getvariable('trace'), trace_id)
ORDER BY trace_id, event_id
