-- question: What is in this trace: events, devices, ranks, steps, kernels?
-- since: 0.1
-- column path (text): the file, as it was loaded
-- column events (count): number of trace events of any kind
-- columns rank
-- column world_size (count): number of ranks in the job
-- column devices (list of text): names of the devices that executed work or that the trace lists
-- column device_word (text): the word for such a device: GPU, or a word in queries/names
-- columns kernels, gpu_ops, linked
-- column cpu_ops (count): number of host operators
-- columns steps
-- column span_ns (ns): from the start of the first host slice or GPU op to the end of the last
-- column start_ns (ns): start of the first host slice or GPU op, on the trace's clock
-- column base_time_ns (ns): zero of the trace's clock, since the Unix epoch; NULL: the clock counts from the
--     epoch
WITH counted AS (
    SELECT trace_id, count(*) FILTER (kind = 'kernel') AS kernels, count(*) AS gpu_ops,
           count(launch_id) AS linked
    FROM gpu_ops GROUP BY trace_id
),
operator AS (SELECT trace_id, count(*) AS cpu_ops FROM cpu_ops GROUP BY trace_id),
stepped AS (SELECT trace_id, count(*) AS steps FROM steps GROUP BY trace_id),
-- A device without a name is called by the hardware that has its properties.
listed AS (
    SELECT
        trace_id, list(name ORDER BY device_id) AS devices,
        list(name ORDER BY device_id) FILTER (is_used) AS used
    FROM (
        SELECT d.trace_id, d.device_id, p.device_id IS NOT NULL AS is_used,
               coalesce(nullif(d.name, ''), p.hardware || ' (' || p.device || ')', d.name, 'unnamed') AS name
        FROM device AS d LEFT JOIN device_peaks AS p
          ON d.trace_id = p.trace_id AND d.device_id = p.device_id
    ) GROUP BY trace_id
),
called AS (
    SELECT trace_id, arg_min(meaning, s.rank) AS device_word
    FROM (SELECT trace_id, category AS text FROM label UNION SELECT trace_id, name FROM device)
    JOIN spelling AS s ON facet = 'device' AND regexp_matches(text, pattern)
    GROUP BY trace_id
)
SELECT
    trace_id, path, events, rank, world_size, coalesce(used, devices, []) AS devices,
    coalesce(device_word, 'GPU') AS device_word,
    coalesce(kernels, 0) AS kernels, coalesce(gpu_ops, 0) AS gpu_ops,
    coalesce(linked, 0) AS linked, coalesce(cpu_ops, 0) AS cpu_ops, coalesce(steps, 0) AS steps,
    span.end_ns - span.start_ns AS span_ns, span.start_ns, base_time_ns
FROM trace LEFT JOIN trace_span AS span USING (trace_id) LEFT JOIN counted USING (trace_id)
LEFT JOIN operator USING (trace_id)
LEFT JOIN stepped USING (trace_id) LEFT JOIN listed USING (trace_id)
LEFT JOIN called USING (trace_id)
WHERE is_asked(trace_id)
ORDER BY trace_id
