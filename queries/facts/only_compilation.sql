-- fact: A trace of torch.compile at work, and of nothing else.
-- into: recorder_finding
-- needs: thread_slice
-- when: compiled = 'compilation' AND NOT EXISTS (FROM slice_label WHERE kind <> 'annotation')
WITH phase AS (
    SELECT trace_id, replace(name, ' (dynamo_timed)', '') AS name, depth, dur_ns, self_ns
    FROM thread_slice JOIN slices USING (trace_id, event_id) WHERE compiled = 'compilation'
),
longest AS (
    SELECT trace_id, name, sum(self_ns) AS ns FROM phase GROUP BY trace_id, name
    QUALIFY row_number() OVER (PARTITION BY trace_id ORDER BY ns DESC, name) = 1
)
SELECT trace_id, 'only_compilation' AS code, 'error' AS severity, count(*) AS count,
       format('compilation by torch.compile took {}, {} of it in {}; nothing else is recorded',
           duration_text(sum(dur_ns)::BIGINT), duration_text(any_value(l.ns)::BIGINT), any_value(l.name))
           AS message,
       NULL::BIGINT AS time_ns, NULL::BIGINT AS event_id
FROM phase JOIN longest AS l USING (trace_id) WHERE depth = (SELECT min(depth) FROM phase)
GROUP BY trace_id
