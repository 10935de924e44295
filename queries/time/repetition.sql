-- question: Does the run repeat itself?
-- since: 0.1
-- columns gpu_ops
-- column repeated (count): ops whose name occurs three times or more on their device, or twice if two steps
--     are marked
-- column steps (count): steps, or iterations of a loop
-- column names (count): different names of these ops on a device; without GPU ops, of operators
-- column once (count): names that occur once: a repeated pass has none
-- column passes (count): calls of the outermost module that takes most of the host's time; without modules,
--     the number of times that at least half of the names occur; 0: unknown
-- column pass_lengths (list): time from the start of each of these calls to the start of the next, in ns
-- doubts: no_gpu_ops
WITH op AS (
    SELECT trace_id, TRUE AS is_gpu, count(*) AS times FROM gpu_ops
    WHERE is_asked(trace_id) GROUP BY trace_id, device_id, name
    UNION ALL
    SELECT trace_id, FALSE, count(*) FROM cpu_ops
    WHERE is_asked(trace_id) AND trace_id NOT IN (SELECT trace_id FROM gpu_ops) GROUP BY trace_id, name
),
-- Layers of one pass repeat, too: recorded modules distinguish a pass from a layer.
pass AS (
    SELECT trace_id, arg_max(calls, (ns, name)) AS calls, arg_max(starts, (ns, name)) AS starts
    FROM (
        SELECT trace_id, f.name, count(*) AS calls, sum(f.dur_ns) AS ns,
               list(f.start_ns ORDER BY f.start_ns) AS starts
        FROM python_frames AS f JOIN thread_slice AS s USING (trace_id, event_id)
        WHERE f.is_module AND s.module_id IS NULL AND is_asked(trace_id)
        GROUP BY ALL
    ) GROUP BY trace_id
),
turn AS (
    SELECT trace_id, times AS turns
    FROM (SELECT trace_id, times, count(*) AS alike, sum(alike) OVER (PARTITION BY trace_id) AS names
          FROM op GROUP BY trace_id, times)
    WHERE times > 1 AND alike >= thresholds().fewest_alike AND 2 * alike >= names
    QUALIFY row_number() OVER (PARTITION BY trace_id ORDER BY alike DESC, times) = 1
),
step AS (SELECT trace_id, count(*) AS steps FROM steps GROUP BY trace_id
    UNION ALL SELECT trace_id, iterations FROM loops)
SELECT op.trace_id, sum_where(times, is_gpu) AS gpu_ops,
       sum_where(times, is_gpu AND times >= if(steps = 2, 2, thresholds().fewest_alike)) AS repeated,
       coalesce(any_value(steps), 0) AS steps, count(*) AS names, count(*) FILTER (times = 1) AS once,
       coalesce(any_value(calls), any_value(turns), 0)::BIGINT AS passes,
       list_transform(list_zip(any_value(starts)[:-2], any_value(starts)[2:]), lambda s: s[2] - s[1])
           AS pass_lengths
FROM op LEFT JOIN step USING (trace_id) LEFT JOIN pass USING (trace_id) LEFT JOIN turn USING (trace_id)
GROUP BY op.trace_id
ORDER BY op.trace_id
