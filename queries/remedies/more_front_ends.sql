-- question: Does the front end of a server work all the time, so that requests and answers wait for it?
-- since: 0.1
-- title: Run more front ends, or stream less often
-- causes: python
-- when: (SELECT count(*) > 0 FROM front_end)
-- needs: Idle cores beside those of the engines.
-- caveat: The price is for twice as many front ends, each with half of the work. Recording stacks slows
--     Python down: without the recorder, the front end works less.
-- blind: no_stacks
-- before:
--     vllm serve MODEL
-- after:
--     vllm serve MODEL --api-server-count 2         # sglang: --tokenizer-worker-num 2
--     # or several tokens in each piece of an answer: --stream-interval 8 (both)
-- risks: Each front end has its own tokenizer, caches and metrics. With a longer interval, text arrives in
--     larger pieces.
-- check: tracekit query after.json server_time
-- sources: https://docs.vllm.ai/en/latest/configuration/optimization.html
--     https://docs.vllm.ai/en/latest/cli/serve.html
--     https://docs.sglang.io/advanced_features/server_arguments.html
-- doubts: no_stacks
WITH stretch AS (
    SELECT trace_id, pid, tid, s.start_ns, s.end_ns, role, s.start_ns IS DISTINCT FROM lag(s.end_ns) OVER w
               OR (role = 'waiting') <> lag(role = 'waiting') OVER w AS begins
    FROM server_stretches(getvariable('trace')) AS s SEMI JOIN front_end USING (trace_id, pid, tid)
    WINDOW w AS (PARTITION BY trace_id, pid, tid ORDER BY s.start_ns)
),
numbered AS (
    SELECT *, count_if(begins) OVER (PARTITION BY trace_id, pid, tid ORDER BY start_ns) AS number
    FROM stretch
),
joined AS (
    SELECT trace_id, pid, tid, min(start_ns) AS start_ns, max(end_ns) AS end_ns,
           any_value(role = 'waiting') AS waits
    FROM numbered GROUP BY trace_id, pid, tid, number
),
shared AS (
    SELECT *, sum_where(end_ns - start_ns, NOT waits) OVER (PARTITION BY trace_id, pid, tid) AS work_ns,
           sum(end_ns - start_ns) OVER (PARTITION BY trace_id, pid, tid) AS span_ns
    FROM joined
)
SELECT trace_id, NULL AS place, format('{:.0f} % of its time', 100 * work_ns / span_ns) AS detail,
       'host' AS target, NULL AS event_id, pid, tid, start_ns, end_ns - start_ns AS dur_ns,
       thresholds().front_end_factor AS factor
FROM shared WHERE NOT waits AND work_ns >= thresholds().front_end_busy_share * span_ns
