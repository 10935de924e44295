-- fact: Events of a kind that nothing reads.
-- into: recorder_finding
-- needs: slice_label
-- when: (SELECT count(*) > 0 FROM slice_label WHERE kind = 'other' AND event_count > 0)
--     OR (SELECT count(*) > 0 FROM label WHERE phase IN ('b', 'e', 'n'))
-- Slices of an unknown category, and asynchronous ones, which no profiler of PyTorch writes. Those without a
-- category have a finding of their own.
WITH unused AS (
    SELECT trace_id, category, sum(event_count) AS events, any_value(l.name) AS name
    FROM slice_label JOIN label AS l USING (label_id) WHERE kind = 'other' AND category <> '' GROUP BY ALL
    UNION ALL
    SELECT trace_id, coalesce(category, 'of phase ' || phase), count(*), any_value(name)
    FROM event_row JOIN label USING (trace_id, label_id) WHERE phase IN ('b', 'e', 'n') GROUP BY ALL
)
SELECT trace_id, 'unused_events' AS code, 'info' AS severity, sum(events)::BIGINT AS count,
       format('events of category {} are in the trace and not used, such as {}',
           string_agg(category, ', ' ORDER BY events DESC, category), arg_max(name, events)) AS message,
       NULL::BIGINT AS time_ns, NULL::BIGINT AS event_id
FROM unused GROUP BY trace_id
