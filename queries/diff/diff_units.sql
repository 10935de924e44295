-- question: What does each run do again and again, and how long does one take in a and in b?
-- since: 0.1
-- of: several traces
-- params a, b
-- column level (count): 1 is outermost; units of level 2 and 3 are parts of others
-- column kind (text): step, prefill, decode, mixed, pass, layer or iteration
-- column a_count (count): units in a, of the group of like units that takes most time; 0: none of this kind
-- column b_count (count): the same count in b
-- column a_median_ns (ns): half of a's units are shorter, once they have settled; NULL: none of this kind
-- column b_median_ns (ns): the same length in b
-- column ratio (b over a): of these lengths
-- doubts: no_gpu_ops, unlinked_gpu_ops, absurd_duration
WITH grouped AS (
    SELECT side, level, kind, count(*) AS count, list(dur_ns ORDER BY start_ns) AS lengths
    FROM units JOIN compared_runs USING (trace_id)
    WHERE source <> 'single' AND is_whole GROUP BY side, level, kind, pid, group_id
    QUALIFY row_number() OVER (PARTITION BY side, level, kind
        ORDER BY count(*) > 1 DESC, sum(dur_ns) DESC, min(start_ns)) = 1
),
settled AS (
    SELECT side, level, kind, count, percentile(lengths[settled_from(lengths):], 50) AS median_ns FROM grouped
)
SELECT level, kind, of_side(count, side, 'a') AS a_count, of_side(count, side, 'b') AS b_count,
       any_value(median_ns) FILTER (side = 'a') AS a_median_ns,
       any_value(median_ns) FILTER (side = 'b') AS b_median_ns, b_median_ns / nullif(a_median_ns, 0) AS ratio
FROM settled GROUP BY level, kind
ORDER BY level, greatest(a_median_ns * a_count, b_median_ns * b_count) DESC, kind
