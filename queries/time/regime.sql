-- question: Is each window overhead-bound or compute-bound by time alone, and by which rule?
-- since: 0.1
-- params kind
-- columns device_id, kind, name, start_ns, span_ns
-- column group_id (count): of a step: those that do the same work have the same; NULL: no step
-- column is_typical (boolean): the step of median length in its group, which stands for the group
-- column regime (text): overhead-bound, compute-bound or unknown
-- column decided_by (text): the rule that decided
-- columns busy_ns, waits_for_host_ns
-- column busy_share (fraction of the window): busy_ns over span_ns
-- column waits_for_host_share (fraction of the window): waits_for_host_ns over span_ns
-- column unexplained_share (fraction of the window): the remaining idle time: the device's own waits, and
--     unlinked gaps
-- column waits_most_for (text): main activity of the launching thread during late gaps; NULL: no late gaps
-- column waits_most_share (fraction of the window): time of the late gaps in that activity
-- columns launches
-- column launches_per_ms (launches per millisecond): launches over span_ns
-- column launch_delay_p50_ns (ns): start of the op minus start of its launch, the median of these launches'
--     first ops; a long delay means that work is queued, a delay of a few microseconds that the device waits
-- column dispatch_share (fraction of the window): operators' own time on the launching threads
-- column memory_share (fraction of the window): the time in which the device's memory could move, at its
--     peak, the bytes of operators with known shapes; NULL: no shapes, or the peak is unknown
-- doubts: no_gpu_ops, unlinked_gpu_ops, starts_before_launch, no_shapes, unknown_device
-- A device that waits for the host longer than it works is overhead-bound; one that works longer is
-- compute-bound. This is a first approximation: it ignores what a faster host or device would gain, and what
-- happened only once. `tracekit analyze` replays the run to confirm or correct it.
WITH grouped AS (SELECT trace_id, name, any_value(group_id) AS group_id FROM judged_steps GROUP BY ALL),
part AS (
    FROM window_partition WHERE is_asked(trace_id) AND kind = coalesce(getvariable('kind'), kind)
),
cause AS (
    SELECT trace_id, device_id, kind, name, window_start_ns AS start_ns,
           arg_max(cause, (ns, cause)) AS waits_most_for, max(ns) AS most_ns
    FROM window_timeline_parts WHERE idle_class = 'host_late' GROUP BY ALL
),
launch AS (
    SELECT trace_id, device_id, launch_id, any_value(launch_start_ns) AS at_ns,
           min(launch_delay_ns) AS delay_ns
    FROM on_time_ops WHERE launch_id IS NOT NULL GROUP BY ALL
),
called AS (
    SELECT p.trace_id, p.device_id, p.kind, p.name, p.start_ns, count(*) AS launches, list(delay_ns) AS delays
    FROM part AS p JOIN launch AS l ON p.trace_id = l.trace_id AND p.device_id = l.device_id
        AND l.at_ns >= p.start_ns AND l.at_ns < p.end_ns
    GROUP BY ALL
),
-- Operators' own time on launching threads.
dispatch AS (
    SELECT p.trace_id, p.device_id, p.kind, p.name, p.start_ns,
           sum(least(s.end_ns, p.end_ns) - greatest(s.start_ns, p.start_ns)) AS dispatch_ns
    FROM part AS p JOIN host_segment AS s
      ON p.trace_id = s.trace_id AND s.end_ns > p.start_ns AND s.start_ns < p.end_ns
    WHERE s.activity = 'dispatch'
        AND (s.trace_id, s.pid, s.tid) IN (SELECT (trace_id, pid, tid) FROM launch_call)
    GROUP BY ALL
),
moved AS (
    SELECT p.trace_id, p.device_id, p.kind, p.name, p.start_ns,
           sum((read_bytes + written_bytes) * 1e9 / d.memory_bytes_per_s) AS memory_ns
    FROM part AS p JOIN all_work AS w ON p.trace_id = w.trace_id AND p.device_id = w.device_id
        AND w.first_ns >= p.start_ns AND w.first_ns < p.end_ns
    JOIN device_peaks AS d ON p.trace_id = d.trace_id AND p.device_id = d.device_id
    GROUP BY ALL
)
SELECT
    p.trace_id, p.device_id, p.kind, p.name, p.start_ns, span_ns, group_id,
    p.kind = 'step'
        AND 2 * row_number() OVER (alike ORDER BY span_ns, p.start_ns) - count(*) OVER alike IN (0, 1)
        AS is_typical,
    CASE WHEN abs(busy_ns - waits_for_host_ns) < idle_ns - waits_for_host_ns THEN 'unknown'
         WHEN waits_for_host_ns > busy_ns THEN 'overhead-bound' ELSE 'compute-bound' END AS regime,
    CASE regime WHEN 'unknown' THEN 'idle time that is neither could turn it either way'
        WHEN 'overhead-bound' THEN 'waits for the host longer than it works'
        ELSE 'works at least as long as it waits for the host' END AS decided_by,
    busy_ns, waits_for_host_ns, busy_ns / nullif(span_ns, 0) AS busy_share,
    waits_for_host_ns / nullif(span_ns, 0) AS waits_for_host_share,
    (idle_ns - waits_for_host_ns) / nullif(span_ns, 0) AS unexplained_share,
    waits_most_for::VARCHAR AS waits_most_for, most_ns / nullif(span_ns, 0) AS waits_most_share,
    coalesce(launches, 0) AS launches, coalesce(launches, 0) * 1e6 / nullif(span_ns, 0) AS launches_per_ms,
    percentile(delays, 50) AS launch_delay_p50_ns,
    coalesce(dispatch_ns, 0) / nullif(span_ns, 0) AS dispatch_share,
    memory_ns / nullif(span_ns, 0) AS memory_share
FROM part AS p LEFT JOIN cause AS c USING (trace_id, device_id, kind, name, start_ns)
LEFT JOIN called AS l USING (trace_id, device_id, kind, name, start_ns)
LEFT JOIN dispatch AS d USING (trace_id, device_id, kind, name, start_ns)
LEFT JOIN moved AS m USING (trace_id, device_id, kind, name, start_ns)
LEFT JOIN grouped AS g ON p.trace_id = g.trace_id AND p.kind = 'step' AND p.name = g.name
WINDOW alike AS (PARTITION BY p.trace_id, p.device_id, p.kind, group_id)
ORDER BY p.trace_id, p.device_id, p.kind, p.start_ns, span_ns
