-- fact: A file from which most events were taken out after the recording.
-- into: recorder_finding
-- needs: slice_label
-- when: kind = 'cpu_op'
-- A recorder numbers operators one after the other, so the numbers that a file lacks are operators that it
-- lacks; but one long jump is where another recording begins, or another process.
WITH number AS (
    SELECT trace_id, external_id FROM event_row JOIN slice_label USING (label_id)
    WHERE kind = 'cpu_op' AND external_id > 0
),
numbered AS (
    SELECT trace_id, count(DISTINCT external_id) AS present,
           max(external_id) - min(external_id) + 1 AS numbers
    FROM number GROUP BY trace_id
    HAVING present >= thresholds().few_launches AND present < thresholds().present_share * numbers
),
jump AS (
    SELECT trace_id, external_id - lag(external_id) OVER (PARTITION BY trace_id ORDER BY external_id) AS jump
    FROM number SEMI JOIN numbered USING (trace_id)
)
SELECT trace_id, 'thinned_file' AS code, 'error' AS severity, numbers - present AS count,
       format('only {:.2g} % of the recorded operators are in this file ({:,} of {:,}): what is busy and '
           || 'what is idle in it means nothing', 100 * present / numbers, present, numbers) AS message,
       NULL::BIGINT AS time_ns, NULL AS event_id
FROM numbered JOIN (SELECT trace_id, max(jump) AS longest FROM jump GROUP BY trace_id) USING (trace_id)
WHERE present < thresholds().present_share * (numbers - longest)
