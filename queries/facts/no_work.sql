-- fact: A recording of a run's start or end, or of waiting, without work; or of launches alone.
-- into: recorder_finding
-- needs: gpu_ops
-- when: kind IN ('runtime', 'driver') AND label_id >> 32 NOT IN (
--     SELECT label_id >> 32 FROM slice_label WHERE kind = 'kernel')
WITH call AS (
    SELECT trace_id, label_id, count(*) AS calls, sum(dur_ns)::BIGINT AS ns FROM event_row
    WHERE trace_id NOT IN (SELECT trace_id FROM gpu_ops WHERE kind = 'kernel')
        AND dur_ns BETWEEN 0 AND thresholds().late_time_ns
    GROUP BY trace_id, label_id
),
part AS (
    SELECT trace_id,
           CASE WHEN kind = 'cpu_op' THEN 'work'
                WHEN activity IN ('launch', 'copy') THEN 'launch'
                WHEN kind NOT IN ('runtime', 'driver') THEN NULL
                WHEN call IN ('free', 'free_waiting') OR regexp_matches(name, 'Destroy|Unload|Reset')
                    THEN 'end'
                WHEN call IN ('allocate', 'load_code', 'query', 'instantiate_graph', 'manage_graph',
                    'begin_capture', 'end_capture') OR regexp_matches(name, 'Create|Init') THEN 'start'
                WHEN activity = 'sync' THEN 'wait' END AS part,
           sum(calls)::BIGINT AS calls, sum(ns)::BIGINT AS ns, arg_max(name, ns) AS name
    FROM call JOIN slice_label USING (label_id) GROUP BY ALL
),
worked AS (
    SELECT trace_id FROM part WHERE part IN ('work', 'launch')
    GROUP BY trace_id HAVING sum(calls) >= thresholds().few_launches
)
SELECT trace_id, 'no_work_recorded' AS code, 'error' AS severity, calls AS count,
       if(calls = 1,
           format('no work of a model was recorded: one call of {}, {}, {}', duration_text(ns), name,
               CASE part WHEN 'start' THEN 'makes the run ready' WHEN 'end' THEN 'ends the run'
                   ELSE 'waits for the device' END),
           format('no work of a model was recorded: {:,} calls of {} in all {}, most of it in {}', calls,
               duration_text(ns), CASE part WHEN 'start' THEN 'make memory, code and graphs ready'
                   WHEN 'end' THEN 'free memory and end the run' ELSE 'wait for the device' END, name)
       ) AS message,
       ns AS time_ns, NULL AS event_id
FROM part WHERE part IN ('start', 'end', 'wait') AND trace_id NOT IN (FROM worked)
QUALIFY row_number() OVER (PARTITION BY trace_id ORDER BY ns DESC) = 1
UNION ALL
SELECT trace_id, 'launches_alone', 'error', calls,
       format('{:,} launches and copies were recorded, but neither what they ran nor operators', calls), ns,
       NULL
FROM part
WHERE part = 'launch' AND calls >= thresholds().few_launches
    AND trace_id NOT IN (SELECT trace_id FROM part WHERE part = 'work')
    AND trace_id NOT IN (SELECT trace_id FROM gpu_ops)
