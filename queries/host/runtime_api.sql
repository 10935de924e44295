-- question: Which runtime and driver calls does the host make, and what do they cost?
-- since: 0.1
-- columns name, activity, count, total_ns, mean_ns, p50_ns, p99_ns, max_ns
-- doubts: no_runtime_calls
SELECT
    trace_id, name, any_value(activity) AS activity, count(*) AS count, sum(dur_ns)::BIGINT AS total_ns,
    sum(dur_ns)::BIGINT // count(*) AS mean_ns,
    percentile(list(dur_ns), 50) AS p50_ns, percentile(list(dur_ns), 99) AS p99_ns, max(dur_ns) AS max_ns
FROM runtime_calls WHERE is_asked(trace_id)
GROUP BY trace_id, name
ORDER BY trace_id, total_ns DESC, name
