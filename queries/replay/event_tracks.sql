-- question: On which track of a viewer do these events lie?
-- since: 0.1
-- params events
-- columns event_id, name
-- column pid (id): process, or the profiler's number for one; negative if the trace has a text
-- column tid (id): thread or stream; negative if the trace has a text
-- doubts: no_category
SELECT trace_id, event_id, name, pid, tid
FROM event WHERE is_asked(trace_id)
  AND event_id IN (SELECT TRY_CAST(unnest(string_split(coalesce(getvariable('events'), ''), ',')) AS BIGINT))
ORDER BY trace_id, event_id
