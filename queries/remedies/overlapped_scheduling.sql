-- question: How long does the device wait between replays while a server prepares the next step?
-- since: 0.1
-- title: Prepare the next step as the device works
-- causes: python, dispatch, launch
-- when: has(traits, 'server_step')
-- needs: A server that can schedule a step before the last one's tokens are known on the host.
-- caveat: An upper bound: all of the preparation is assumed to be hidden behind the device's work.
-- blind: no_runtime_calls
-- before:
--     python -m sglang.launch_server --disable-overlap-schedule ...
-- after:
--     python -m sglang.launch_server ...            # overlaps by default
--     # vllm serve MODEL --async-scheduling
-- risks: The end of a request is noticed one step later. Features that read each token on the host, such as
--     some grammars and penalties, switch it off.
-- check: tracekit query after.json unit_times; tracekit query after.json idle_gaps
-- sources: https://docs.vllm.ai/en/latest/configuration/engine_args.html
--     https://lmsys.org/blog/2024-12-04-sglang-v0-4/
-- doubts: no_gpu_ops, no_runtime_calls, unlinked_gpu_ops
-- Graphs carry most of the ops: the rest prepares their inputs, or takes their results. A single step does
-- not tell whether the device worked on another one while it was prepared.
WITH op AS (
    FROM decoded_ops WHERE trace_id NOT IN (SELECT trace_id FROM label JOIN slice_label USING (label_id)
        WHERE has(traits, 'schedules_ahead'))
),
replay AS (
    SELECT DISTINCT o.trace_id, launch_id AS event_id, o.pid, o.tid, e.ts_ns AS start_ns,
           e.ts_ns + e.dur_ns AS end_ns
    FROM op AS o JOIN event_row AS e ON o.trace_id = e.trace_id AND launch_id = e.event_id WHERE is_graph
),
carried AS (
    SELECT trace_id, count(*) FILTER (NOT is_graph) AS outside FROM op
    GROUP BY trace_id HAVING count(DISTINCT step_id) > 1
        AND count(*) FILTER (is_graph) > thresholds().captured_majority * count(*)
),
stretch AS (
    SELECT r.trace_id, r.event_id, r.pid, r.tid, coalesce(lag(r.end_ns) OVER thread, s.start_ns) AS start_ns,
           r.start_ns AS end_ns
    FROM replay AS r JOIN trace_span AS s USING (trace_id)
    WINDOW thread AS (PARTITION BY r.trace_id, r.pid, r.tid ORDER BY r.start_ns)
    UNION ALL
    SELECT r.trace_id, arg_max(r.event_id, r.end_ns), r.pid, r.tid, max(r.end_ns), any_value(s.end_ns)
    FROM replay AS r JOIN trace_span AS s USING (trace_id) GROUP BY r.trace_id, r.pid, r.tid
)
SELECT trace_id, NULL AS place, outside || ' GPU ops outside the replays' AS detail, 'overhead' AS target,
       event_id, pid, tid, start_ns, end_ns - start_ns AS dur_ns, 0 AS factor
FROM stretch JOIN carried USING (trace_id) WHERE end_ns > start_ns
