-- Interval arithmetic. A relation of intervals, given by its name (a table, view or CTE), has the columns
-- `key` (a device, or a struct of several ids: intervals of different keys are not mixed), `start_ns` and
-- `end_ns`. Call macros in subqueries of their own: DuckDB takes a direct join for a lateral one.

-- How many intervals of each key run at the same time: stretches between adjacent starts and ends, with
-- `depth` (0 in the gaps between the first start and the last end).
CREATE OR REPLACE MACRO interval_depth(intervals) AS TABLE
SELECT key, at_ns AS start_ns, lead(at_ns) OVER later AS end_ns,
       -- All edges of an instant count; the last of them begins the stretch.
       (sum(step) OVER (later RANGE UNBOUNDED PRECEDING))::BIGINT AS depth
FROM (
    SELECT key, start_ns AS at_ns, 1 AS step FROM query_table(intervals)
    UNION ALL
    SELECT key, end_ns, -1 FROM query_table(intervals)
)
WINDOW later AS (PARTITION BY key ORDER BY at_ns)
QUALIFY end_ns > start_ns;

-- The union: stretches that some interval of the key covers: the `busy` time. Neighbors do not touch.
CREATE OR REPLACE MACRO interval_union(intervals) AS TABLE
WITH reach AS (
    SELECT key, start_ns, max(end_ns) OVER (in_order ROWS UNBOUNDED PRECEDING) AS reach_ns,
           (start_ns <= max(end_ns) OVER (in_order ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) IS TRUE
               AS goes_on,
           (lead(start_ns) OVER in_order <= reach_ns) IS TRUE AS is_continued
    FROM query_table(intervals)
    WHERE end_ns > start_ns
    WINDOW in_order AS (PARTITION BY key ORDER BY start_ns)
)
-- The first and last intervals of each stretch remain.
SELECT key, start_ns,
       CASE WHEN is_continued THEN lead(reach_ns) OVER (PARTITION BY key ORDER BY start_ns) ELSE reach_ns END
           AS end_ns
FROM reach
WHERE NOT goes_on OR NOT is_continued
QUALIFY NOT goes_on;

-- The labels that run at once: intervals with a `label` become stretches with a nonempty, sorted list of the
-- labels that cover them. Overlapping intervals of one label count once.
CREATE OR REPLACE MACRO interval_labels(intervals) AS TABLE
WITH labeled AS (
    SELECT key, label, at_ns, sum(step) AS step
    FROM (
        SELECT key, label, start_ns AS at_ns, 1 AS step FROM query_table(intervals)
        UNION ALL
        SELECT key, label, end_ns, -1 FROM query_table(intervals)
    ) GROUP BY ALL
),
known AS (SELECT label, 1::BIGINT << (row_number() OVER (ORDER BY label) - 1) AS bit
    FROM (SELECT DISTINCT label FROM labeled)),
running AS (
    SELECT key, label, at_ns, step, sum(step) OVER (PARTITION BY key, label ORDER BY at_ns) AS depth
    FROM labeled
),
-- A label's bit is set where it begins to run and cleared where it ends.
edge AS (
    SELECT key, at_ns,
           sum(CASE WHEN depth > 0 AND depth = step THEN bit WHEN depth = 0 AND step < 0 THEN -bit
               ELSE 0 END) AS step
    FROM running JOIN known USING (label) GROUP BY key, at_ns
),
stretch AS (
    SELECT key, at_ns AS start_ns, lead(at_ns) OVER later AS end_ns, (sum(step) OVER later)::BIGINT AS mask
    FROM edge
    WINDOW later AS (PARTITION BY key ORDER BY at_ns)
),
named AS (
    SELECT mask, list(label ORDER BY label) AS labels
    FROM (SELECT DISTINCT mask FROM stretch WHERE mask > 0) JOIN known ON mask & bit <> 0 GROUP BY mask
)
SELECT key, start_ns, end_ns, labels FROM stretch JOIN named USING (mask) WHERE end_ns > start_ns;

-- The part of each interval in each bin that it touches: `ns` in the bin from `from_ns` to `to_ns`. Bins of
-- `bin_ns` cut the time of their key (a relation with key, first_ns, last_ns and bin_ns, by its name).
CREATE OR REPLACE MACRO interval_bins(intervals, spans) AS TABLE
SELECT *, first_ns + bin * bin_ns AS from_ns, least(from_ns + bin_ns, last_ns) AS to_ns,
       least(end_ns, to_ns) - greatest(start_ns, from_ns) AS ns
FROM (
    SELECT i.*, s.* EXCLUDE key,
           unnest(range((start_ns - first_ns) // bin_ns, (end_ns - 1 - first_ns) // bin_ns + 1)) AS bin
    FROM query_table(intervals) AS i JOIN query_table(spans) AS s USING (key) WHERE end_ns > start_ns
);

-- How much of each interval (with an `event_id`) the union of others of its key covers: `covered_ns`.
-- Up to an instant, the union covers the whole union of the intervals that began by then, minus the part that
-- the longest of them covers later.
CREATE OR REPLACE MACRO interval_covered(intervals, cover) AS TABLE
WITH reach AS (
    SELECT key, start_ns, max(end_ns) OVER by_then AS reach_ns,
           greatest(0, end_ns - greatest(start_ns, max(end_ns) OVER (in_order
               ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING))) AS more_ns
    FROM query_table(cover)
    WINDOW in_order AS (PARTITION BY key ORDER BY start_ns), by_then AS (in_order RANGE UNBOUNDED PRECEDING)
),
-- The join by time is fast when its key is a number.
numbered AS (SELECT key, row_number() OVER () AS number FROM (SELECT DISTINCT key FROM reach)),
cover_by AS (
    SELECT number, start_ns, reach_ns,
           sum(more_ns) OVER (PARTITION BY number ORDER BY start_ns RANGE UNBOUNDED PRECEDING) AS by_then_ns
    FROM reach JOIN numbered USING (key)
),
instant AS (
    SELECT key, number, event_id, at_ns, sign
    FROM (
        SELECT key, event_id, start_ns AS at_ns, -1 AS sign FROM query_table(intervals)
        UNION ALL
        SELECT key, event_id, end_ns, 1 FROM query_table(intervals)
    ) LEFT JOIN numbered USING (key)
)
SELECT i.key, i.event_id,
       sum(sign * coalesce(c.by_then_ns - greatest(0, c.reach_ns - i.at_ns), 0))::BIGINT AS covered_ns
FROM instant AS i ASOF LEFT JOIN cover_by AS c ON i.number = c.number AND i.at_ns >= c.start_ns
GROUP BY i.key, i.event_id;
