-- Notes, for each trace, how many events have names that a plugin's spellings match. $plugin is the plugin,
-- $matches the condition on `kind`, `category` and `name`.
INSERT INTO recorder_finding
SELECT trace_id, 'plugin_names', 'info', sum(event_count)::BIGINT, 'names spelled by plugin ' || $plugin,
       NULL, NULL
FROM (
    SELECT l.trace_id, s.kind, coalesce(l.category, '') AS category, coalesce(s.name, '') AS name,
           s.event_count
    FROM slice_label AS s JOIN label AS l USING (label_id)
) WHERE $matches GROUP BY trace_id
