-- question: Where does the time of a server's prefills and decodes go: device, scheduling or waiting?
-- since: 0.1
-- when: has(traits, 'server_step')
-- column rank (id): the rank in the trace; NULL: not recorded
-- column kind (text): prefill, decode, mixed or pass, by the ranges that the server annotates
-- column units (count): such ranges; each has the time from the end of the one before to its own end
-- column requests (count): in one of them, the mean; NULL of this and the next: unknown
-- column tokens (count): read and generated in one, the mean
-- column total_ns (ns): all of them; the next five add up to it
-- column device_ns (ns): GPU ops run
-- column scheduling_ns (ns): none runs, and the engine schedules or handles outputs
-- column exchanging_ns (ns): none runs, and it sends or reads messages
-- column waiting_ns (ns): none runs, and it waits for requests, or for the process that schedules
-- column other_ns (ns): none runs, and it does other work, or nothing was recorded
-- column held_ns (ns): the part of waiting_ns in which a front end works
-- column beside_ns (ns): a front end works, whatever the engine does
-- doubts: no_gpu_ops, no_stacks
WITH step AS MATERIALIZED (
    SELECT trace_id, pid, tid, kind, end_ns, prefill_requests + decode_requests AS requests,
           prefill_tokens + decode_tokens AS tokens,
           coalesce(lag(end_ns) OVER w, start_ns) AS start_ns
    FROM server_step WHERE is_asked(trace_id)
    WINDOW w AS (PARTITION BY trace_id, pid, tid ORDER BY server_step.start_ns)
),
counted AS (
    SELECT trace_id, kind, count(*) AS units, avg(requests) AS requests, avg(tokens) AS tokens
    FROM step GROUP BY trace_id, kind
),
stretch AS MATERIALIZED (FROM server_stretches(NULL)),
running AS (
    SELECT trace_id AS key, kind AS label, start_ns, end_ns FROM step
    UNION ALL
    SELECT trace_id, 'device', start_ns, end_ns FROM gpu_ops SEMI JOIN step USING (trace_id)
    UNION ALL
    SELECT trace_id, CASE WHEN role IN ('scheduling', 'handling outputs') THEN 'scheduling'
               WHEN role IN ('exchanging', 'waiting') THEN role ELSE 'working' END, start_ns, end_ns
    FROM stretch SEMI JOIN step USING (trace_id, pid, tid)
    UNION ALL
    -- Processes of one host share its clock.
    SELECT e.trace_id, 'front end', s.start_ns, s.end_ns
    FROM (stretch SEMI JOIN front_end USING (trace_id, pid, tid)) AS s JOIN trace AS f USING (trace_id)
    JOIN (FROM trace SEMI JOIN step USING (trace_id)) AS e ON e.host IS NOT DISTINCT FROM f.host
    WHERE role <> 'waiting'
),
labeled AS (
    SELECT key AS trace_id, end_ns - start_ns AS ns, labels,
           list_filter(labels, lambda each: each IN ('prefill', 'decode', 'mixed', 'pass'))[1] AS kind,
           CASE WHEN has(labels, 'device') THEN 'device' WHEN has(labels, 'waiting') THEN 'waiting'
               WHEN has(labels, 'scheduling') THEN 'scheduling'
               WHEN has(labels, 'exchanging') THEN 'exchanging' ELSE 'other' END AS part
    FROM interval_labels('running')
)
SELECT trace_id, rank, kind, units, requests, tokens, sum(ns)::BIGINT AS total_ns,
       sum_where(ns, part = 'device') AS device_ns, sum_where(ns, part = 'scheduling') AS scheduling_ns,
       sum_where(ns, part = 'exchanging') AS exchanging_ns, sum_where(ns, part = 'waiting') AS waiting_ns,
       sum_where(ns, part = 'other') AS other_ns,
       sum_where(ns, part = 'waiting' AND has(labels, 'front end')) AS held_ns,
       sum_where(ns, has(labels, 'front end')) AS beside_ns
FROM labeled JOIN counted USING (trace_id, kind) JOIN trace USING (trace_id)
GROUP BY trace_id, rank, kind, units, requests, tokens
ORDER BY trace_id, total_ns DESC, kind
