-- question: Which classes of kernel took more or less GPU time in b than in a?
-- param a (integer, default 1): the trace_id of the baseline
-- param b (integer, default 2): the trace_id of the run to compare with it
-- column class (text): the kernels' class
-- column a_count (count per step): kernels of a over its steps (over 1 where it marks none)
-- column b_count (count per step): kernels of b
-- column a_ns (ns): sum of their durations in a, over its steps
-- column b_ns (ns): in b
-- column change_ns (ns): b_ns less a_ns
-- doubts: no_gpu_ops, absurd_duration
WITH run AS (FROM compared_runs(coalesce(getvariable('a'), 1), coalesce(getvariable('b'), 2))),
summed AS (
    SELECT side, class, count(*) / steps AS count, (sum(dur_ns) // steps)::BIGINT AS ns
    FROM gpu_ops JOIN run USING (trace_id) WHERE kind = 'kernel' GROUP BY side, class, steps
)
SELECT class, of_side(count, side, 'a') AS a_count, of_side(count, side, 'b') AS b_count,
       of_side(ns, side, 'a') AS a_ns,
       of_side(ns, side, 'b') AS b_ns,
       of_side(ns, side, 'b') - of_side(ns, side, 'a') AS change_ns
FROM summed GROUP BY class
ORDER BY abs(change_ns) DESC, class
