-- Numbers a trace's events by their places in the file. Threads insert whole slices, in any order, and
-- leave in event_id the number of the slice: its rows stand together, in the slice's order.
UPDATE event SET event_id = event.rowid - first_row + before
FROM (
    SELECT
        event_id AS slice,
        CASE WHEN max(rowid) - min(rowid) + 1 = count(*) THEN min(rowid)
             ELSE error('the rows of a slice do not stand together') END AS first_row,
        (sum(count(*)) OVER (ORDER BY event_id) - count(*))::BIGINT AS before
    FROM event WHERE trace_id = $trace_id GROUP BY event_id
) AS slices
WHERE event.trace_id = $trace_id AND event.event_id = slice
