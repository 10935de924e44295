-- The tables of a database, one a row, whose rows contradict each other in a way that would mislead the code
-- that reads them, or cost it minutes or memory. No load writes such rows. Each table is scanned once.
WITH places AS (SELECT trace_id, events + rejected AS count FROM trace),
-- For each table and trace (by thread, if it has no trace_id): the least and the greatest event_id in it.
ids AS (
    SELECT 'event_row' AS place, trace_id, min(event_id) AS least, max(event_id) AS most
    FROM event_row GROUP BY ALL
    UNION ALL
    SELECT 'gpu_ops', trace_id, least(min(event_id), min(launch_id)),
           greatest(max(event_id), max(launch_id))
    FROM gpu_ops GROUP BY ALL
    UNION ALL
    SELECT 'gpu_timeline', trace_id, least(min(op_id), min(launch_id), min(host_event_id)),
           greatest(max(op_id), max(launch_id), max(host_event_id))
    FROM gpu_timeline GROUP BY ALL
    UNION ALL
    SELECT 'thread_segment', trace_id, min(event_id), max(event_id)
    FROM thread_segment LEFT JOIN host_thread USING (thread) GROUP BY ALL
    UNION ALL
    SELECT 'thread_slice', trace_id,
           least(min(event_id), min(parent_id), min(cpu_op_id), min(outer_op_id), min(python_id),
               min(line_id), min(module_id)),
           greatest(max(event_id), max(parent_id), max(cpu_op_id), max(outer_op_id), max(python_id),
               max(line_id), max(module_id))
    FROM thread_slice GROUP BY ALL
    UNION ALL
    SELECT place, trace_id, NULL, NULL
    FROM (SELECT 'host_thread' AS place, trace_id FROM host_thread UNION ALL
          SELECT 'trace_span', trace_id FROM trace_span UNION ALL
          SELECT 'windows', trace_id FROM windows UNION ALL
          SELECT 'window_timeline_parts', trace_id FROM window_timeline_parts UNION ALL
          SELECT 'label', trace_id FROM label UNION ALL
          SELECT 'device', trace_id FROM device UNION ALL
          SELECT 'rejected', trace_id FROM rejected)
    GROUP BY ALL
),
-- The segments of a thread fill its trace's time, without gap or overlap.
filled AS (
    SELECT thread, sum(end_ns::HUGEINT - start_ns) AS ns, min(end_ns::HUGEINT - start_ns) AS shortest,
           min(start_ns) AS start_ns, max(end_ns) AS end_ns
    FROM thread_segment GROUP BY ALL
)
SELECT place FROM ids LEFT JOIN places USING (trace_id) WHERE count IS NULL OR least < 0 OR most >= count
UNION
SELECT 'event_row' FROM trace
LEFT JOIN (SELECT trace_id, count(*) AS stored FROM event_row GROUP BY ALL) USING (trace_id)
WHERE coalesce(stored, 0) != events
UNION
SELECT 'label' FROM label GROUP BY label_id HAVING label_id IS NULL OR count(*) > 1
UNION
SELECT 'slice_label' FROM slice_label GROUP BY label_id HAVING label_id IS NULL OR count(*) > 1
UNION
SELECT 'slice_label' FROM slice_label ANTI JOIN label USING (label_id)
UNION
SELECT 'event_row' FROM (SELECT DISTINCT trace_id, label_id FROM event_row)
ANTI JOIN label USING (trace_id, label_id)
UNION
SELECT 'thread_slice' FROM (SELECT DISTINCT thread, trace_id FROM thread_slice)
ANTI JOIN host_thread USING (thread, trace_id)
UNION
SELECT 'host_thread' FROM host_thread GROUP BY thread HAVING thread IS NULL OR count(*) > 1
UNION
SELECT 'trace_span' FROM trace_span GROUP BY trace_id HAVING count(*) > 1
UNION
SELECT 'thread_segment' FROM filled JOIN host_thread AS t USING (thread)
WHERE NOT coalesce(shortest >= 0 AND ns = t.end_ns::HUGEINT - t.start_ns AND filled.start_ns = t.start_ns
                   AND filled.end_ns = t.end_ns, FALSE)
ORDER BY place
