-- fact: A file with device work in an unsupported form, so that the host's waits are unknown.
-- into: recorder_finding
-- needs: slice_label
-- when: (SELECT count(*) FROM trace) > (SELECT count(DISTINCT trace_id)
--     FROM event_row JOIN slice_label USING (label_id)
--     WHERE kind IN ('kernel', 'memcpy', 'memset') AND device_id NOT NULL)
-- In a trace without GPU ops, slices without a known category are a device's if their process or thread is
-- named like one, or if they are the targets of flows of launches.
WITH lane AS (
    SELECT e.trace_id, pid, tid,
           count(*) FILTER (phase = 'X' AND (kind = 'other' OR coalesce(category, '') = '')) AS slices,
           count(*) FILTER (phase = 'X') AS every,
           count(*) FILTER (phase = 'f' AND regexp_matches(category, '(?i)device|npu|gpu|cuda|ac2g'))
               AS targets,
           any_value(raw->>'pid') FILTER (pid < 0) AS text
    FROM event_row AS e JOIN label USING (label_id) LEFT JOIN slice_label USING (label_id)
    WHERE e.trace_id NOT IN (
        SELECT trace_id FROM event_row JOIN slice_label USING (label_id)
        WHERE kind IN ('kernel', 'memcpy', 'memset'))
    GROUP BY ALL HAVING slices >= thresholds().few_launches AND 2 * slices > every
),
-- The names of processes (no thread) and threads; a text in the place of a number is a name.
named AS (
    SELECT trace_id, pid, if(name = 'thread_name', tid, NULL) AS tid, args->>'name' AS name
    FROM event_row SEMI JOIN lane USING (trace_id) JOIN (SELECT label_id, name FROM label WHERE phase = 'M'
        AND name IN ('process_name', 'thread_name')) USING (label_id)
    UNION SELECT trace_id, pid, NULL, text FROM lane WHERE text IS NOT NULL
),
known AS (FROM named WHERE device_lane(name) = 'device'),
found AS (
    SELECT l.trace_id, slices, coalesce(n.name, 'a thread that launches point to') AS name
    FROM lane AS l LEFT JOIN known AS n
      ON l.trace_id = n.trace_id AND l.pid = n.pid AND (n.tid IS NULL OR n.tid = l.tid)
    WHERE n.name IS NOT NULL OR 2 * targets >= slices
    QUALIFY row_number() OVER (PARTITION BY l.trace_id, l.pid, l.tid ORDER BY n.tid NULLS FIRST, n.name) = 1
)
SELECT trace_id, 'unread_device' AS code, 'error' AS severity, sum(slices)::BIGINT AS count,
       format('{:,} slices of {} look like a device''s, in a form not read yet: what the device '
           || 'did, and who waits for whom, is unknown', count, min(name)) AS message,
       NULL::BIGINT AS time_ns, NULL AS event_id
FROM found GROUP BY trace_id
