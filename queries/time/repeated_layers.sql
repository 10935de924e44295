-- question: Which layers does a stream run back to back, as sequences of kernels, and which are slow?
-- since: 0.1
-- params top
-- param repeats (integer, default thresholds().layer_repeats): minimum number of repeats back to back
-- params shortest
-- columns device_id, stream
-- column kernels (list of text): the kernels of one repeat, in order; it may begin in the middle of a layer
-- columns length
-- column runs (count): number of repetitions, for example one per step
-- column count (count): number of repeats over all runs
-- columns total_ns
-- column share_of_kernel_time (fraction of summed kernel time): total_ns over the sum of all kernels'
--     durations on the device; sequences may contain each other, so these do not add up
-- column p50_ns (ns): median repeat, from the first kernel's start to the last one's end
-- columns min_ns, max_ns
-- column slow_count (count): number of repeats far longer than usual, by the rule of kernel_outliers
-- column slow_ns (ns): time of the slow repeats beyond p50_ns
-- column slowest_start_ns (ns): start of the longest repeat
-- column slowest_number (count): position of the longest repeat in its run, from 1
-- doubts: no_gpu_ops, absurd_duration
WITH kernel AS MATERIALIZED (
    SELECT trace_id, device_id, stream, name, hash(name) AS code, start_ns, end_ns, dur_ns,
           dense_rank() OVER (ORDER BY trace_id, device_id, stream) AS lane,
           row_number() OVER (PARTITION BY trace_id, device_id, stream ORDER BY start_ns, event_id) AS place
    FROM gpu_ops WHERE kind = 'kernel' AND is_asked(trace_id)
),
-- Several kernels in a row (thresholds().layer_hint) that recur `period` kernels later hint at a layer.
few AS (
    SELECT lane, place, hash(list(code) OVER (PARTITION BY lane ORDER BY place
        ROWS BETWEEN CURRENT ROW AND thresholds().layer_hint - 1 FOLLOWING)) AS code
    FROM kernel
),
again AS (
    SELECT lane, place, lead(place) OVER (PARTITION BY lane, code ORDER BY place) - place AS period FROM few
),
hint AS (
    SELECT lane, period, min(place) - period AS first_place,
           max(place) + period + thresholds().layer_hint AS last_place
    FROM again WHERE period >= coalesce(getvariable('shortest'), 2)
    GROUP BY lane, period
    -- At least half of the kernels in the fewest repeats: some may also recur within a repeat.
    HAVING 2 * (count(*) + thresholds().layer_hint - 1)
        >= (coalesce(getvariable('repeats'), thresholds().layer_repeats) - 1) * period
    QUALIFY row_number() OVER (PARTITION BY lane ORDER BY count(*) DESC, period) <= thresholds().layer_periods
),
-- Where each kernel equals the one a period later, and stretches of such positions.
same AS (
    SELECT a.lane, h.period, a.place,
           a.place - row_number() OVER (PARTITION BY a.lane, h.period ORDER BY a.place) AS stretch
    FROM hint AS h JOIN kernel AS a ON h.lane = a.lane AND a.place BETWEEN h.first_place AND h.last_place
    JOIN kernel AS b ON a.lane = b.lane AND b.place = a.place + h.period
    WHERE a.code = b.code
),
run AS (
    SELECT lane, period, min(place) AS first_place, count(*) // period + 1 AS repeats,
           max(place) + period AS last_place
    FROM same GROUP BY lane, period, stretch
    HAVING count(*) // period + 1 >= coalesce(getvariable('repeats'), thresholds().layer_repeats)
),
-- Not a multiple (two or three times) of a shorter period.
simple AS (
    FROM run AS r WHERE NOT EXISTS (
        FROM run AS s WHERE s.lane = r.lane AND s.period < r.period AND r.period % s.period = 0
            AND s.first_place <= r.first_place AND s.last_place >= r.first_place + r.period * r.repeats - 1)
),
repeat AS (
    SELECT k.lane, r.period, r.first_place, (k.place - r.first_place) // r.period AS number,
           hash(list(k.code ORDER BY k.place)) AS code, min(k.place) AS place, min(k.start_ns) AS start_ns,
           max(k.end_ns) - min(k.start_ns) AS span_ns, sum(k.dur_ns)::BIGINT AS gpu_ns
    FROM simple AS r JOIN kernel AS k ON r.lane = k.lane
        AND k.place BETWEEN r.first_place AND r.first_place + r.period * r.repeats - 1
    GROUP BY ALL
),
usual AS (
    SELECT lane, period, code, percentile(list(span_ns), 25) AS q1_ns, percentile(list(span_ns), 50) AS q2_ns,
           percentile(list(span_ns), 75) AS q3_ns
    FROM repeat GROUP BY ALL
),
judged AS (
    SELECT r.*, q2_ns, span_ns > q3_ns + thresholds().outlier_fence * (q3_ns - q1_ns)
               AND span_ns > q2_ns
                   + greatest(thresholds().outlier_excess_ns, thresholds().outlier_excess_share * q2_ns)
               AS is_slow
    FROM repeat AS r JOIN usual USING (lane, period, code)
),
summed AS (
    SELECT lane, period, code, min(place) AS place, count(DISTINCT first_place) AS runs, count(*) AS count,
           sum(gpu_ns)::BIGINT AS total_ns, any_value(q2_ns) AS p50_ns, min(span_ns) AS min_ns,
           max(span_ns) AS max_ns, count(*) FILTER (is_slow) AS slow_count,
           sum_where(span_ns - q2_ns, is_slow) AS slow_ns,
           arg_max({'start_ns': start_ns, 'number': number + 1}, (span_ns, -start_ns)) AS slowest
    FROM judged GROUP BY ALL
    ORDER BY total_ns DESC, period, place, lane LIMIT coalesce(getvariable('top'), 20)
),
named AS (
    SELECT s.lane, s.period, s.code, k.trace_id, k.device_id, k.stream,
           list(k.name ORDER BY k.place) AS kernels
    FROM summed AS s JOIN kernel AS k
      ON s.lane = k.lane AND k.place BETWEEN s.place AND s.place + s.period - 1
    GROUP BY ALL
),
device_time AS (SELECT trace_id, device_id, sum(dur_ns) AS ns FROM kernel GROUP BY ALL)
SELECT
    trace_id, device_id, stream, kernels, period AS length, runs, count, total_ns,
    total_ns / nullif(ns, 0) AS share_of_kernel_time, p50_ns, min_ns, max_ns, slow_count, slow_ns,
    slowest.start_ns AS slowest_start_ns, slowest.number AS slowest_number
FROM summed JOIN named USING (lane, period, code) JOIN device_time USING (trace_id, device_id)
ORDER BY total_ns DESC, length, slowest_start_ns, trace_id
