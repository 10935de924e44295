-- fact: A file into which several processes wrote at once.
-- into: recorder_finding
-- needs: slice_label
-- when: (SELECT count(*) > 0 FROM rejected)
-- In a file that one program merged from several processes, one process follows another between whole events.
-- If processes write into one file, the text of one breaks off.
WITH broken AS (
    SELECT trace_id, event_id, text FROM rejected
    WHERE NOT regexp_matches(reason, ', not (an event|events)$') AND reason <> 'after the trace''s end'
),
-- Host events of a different process from the previous one.
changes AS (
    SELECT c.trace_id, coalesce(b.event_id > before_id, FALSE) AS is_broken
    FROM (
        SELECT trace_id, event_id, pid, lag(pid) OVER w AS before, lag(event_id) OVER w AS before_id
        FROM event_row JOIN slice_label USING (label_id)
        WHERE trace_id IN (SELECT trace_id FROM broken) AND pid IS NOT NULL
          AND kind IN ('cpu_op', 'runtime', 'driver', 'python')
        WINDOW w AS (PARTITION BY trace_id ORDER BY event_id)
    ) AS c
    ASOF LEFT JOIN broken AS b ON c.trace_id = b.trace_id AND c.event_id >= b.event_id
    WHERE pid <> before
),
shared AS (
    -- Switches there and back, mostly there.
    SELECT trace_id FROM changes GROUP BY trace_id
    HAVING count(*) FILTER (is_broken) >= 2 AND 2 * count(*) FILTER (is_broken) >= count(*)
    UNION
    -- Another trace's head between the events.
    SELECT trace_id FROM broken JOIN trace USING (trace_id)
    WHERE event_id BETWEEN 1 AND events - 1 AND regexp_matches(text, '"traceEvents"\s*:\s*\[')
)
SELECT trace_id, 'shared_file' AS code, 'error' AS severity, count(*) AS count,
       'two writers shared the file: their texts cut each other off, and only what is whole was loaded '
       || '(give each rank a file of its own)' AS message, NULL::BIGINT AS time_ns, NULL::BIGINT AS event_id
FROM shared JOIN broken USING (trace_id) GROUP BY trace_id
