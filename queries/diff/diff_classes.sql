-- question: Which classes of kernel took more or less GPU time in b than in a?
-- since: 0.1
-- of: several traces
-- params a, b
-- columns class, a_count, b_count, a_ns, b_ns, change_ns
-- doubts: no_gpu_ops, absurd_duration
WITH summed AS (
    SELECT side, class, count(*) / steps AS count, (sum(dur_ns) // steps)::BIGINT AS ns
    FROM gpu_ops JOIN compared_runs USING (trace_id) WHERE kind = 'kernel' GROUP BY side, class, steps
)
SELECT class, of_side(count, side, 'a') AS a_count, of_side(count, side, 'b') AS b_count,
       of_side(ns, side, 'a') AS a_ns, of_side(ns, side, 'b') AS b_ns, b_ns - a_ns AS change_ns
FROM summed GROUP BY class
ORDER BY abs(change_ns) DESC, class
