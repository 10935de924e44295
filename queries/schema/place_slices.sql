-- Where the rows of each slice just read stand, and how many of its events are before them: $before,
-- those that are numbered already, and the slices before it. Threads insert whole slices, in any
-- order: the rows of one stand together, in its order. event_id is still a negative slice number.
INSERT INTO slice_place
SELECT
    event_id AS slice,
    CASE WHEN max(rowid) - min(rowid) + 1 = count(*) THEN min(rowid)
         ELSE error('the rows of a slice do not stand together') END AS first_row,
    ($before + sum(count(*)) OVER (ORDER BY event_id DESC) - count(*))::BIGINT AS before
FROM event WHERE trace_id = $trace_id AND event_id < 0 GROUP BY event_id
