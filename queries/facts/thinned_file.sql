-- fact: A file from which most operators were removed after the recording.
-- into: recorder_finding
-- needs: slice_label
-- when: kind = 'cpu_op'
-- A thread of the recorder takes a block of numbers, and numbers its operators and ranges one after the
-- other: numbers missing inside a block are operators missing from the file. Holes between blocks are
-- normal: other threads, recordings and processes have those numbers.
WITH block AS (
    SELECT trace_id, count(DISTINCT external_id) AS present,
           min(external_id) AS first, max(external_id) AS last
    FROM event_row JOIN slice_label USING (label_id)
    WHERE kind IN ('cpu_op', 'annotation') AND external_id > 0
    GROUP BY trace_id, (external_id - 1) // thresholds().number_block
),
numbered AS (
    SELECT *, present < thresholds().present_share * in_a_row AS is_thinned FROM (
        SELECT trace_id, sum(present)::BIGINT AS present, sum(last - first + 1)::BIGINT AS in_a_row,
               max(last) - min(first) + 1 AS numbers
        FROM block GROUP BY trace_id
    ) WHERE present >= thresholds().few_launches
)
SELECT trace_id, if(is_thinned, 'thinned_file', 'sparse_numbers') AS code,
       if(is_thinned, 'error', 'info') AS severity,
       if(is_thinned, in_a_row, numbers) - present AS count,
       if(is_thinned,
           format('only {:.2g} % of the operators that were recorded are in this file ({:,} of {:,}): its '
               || 'busy and idle times mean nothing',
               100 * present / in_a_row, present, in_a_row),
           format('operators have only {:.2g} % of the numbers between their first and last one: other '
               || 'threads, recordings or processes have the rest, or they were taken out',
               100 * present / numbers)
       ) AS message,
       NULL::BIGINT AS time_ns, NULL AS event_id
FROM numbered WHERE is_thinned OR present < thresholds().sparse_share * numbers
