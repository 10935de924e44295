-- fact: A gap between another profiler's file and its trace, or that profiler's own message.
-- into: recorder_finding
-- needs: slice_label
-- when: (SELECT bool_or(profiler <> 'kineto') FROM trace)
-- The file's reader reports it in the trace's member `profiler`.
WITH counted AS (
    SELECT trace_id, profiler, metadata->'profiler' AS said,
           list_sum(list_transform(json_keys(said->'left_out'),
               lambda key: TRY_CAST(said->'left_out'->>key AS BIGINT)))::BIGINT AS rows_left,
           array_to_string(json_keys(said->'left_out'), ', ') AS tables,
           TRY_CAST(said->>'whole_graphs' AS BIGINT) AS graphs,
           TRY_CAST(said->>'picoseconds_lost' AS BIGINT) AS rounded,
           json_array_length(said->'said') AS complaints
    FROM trace WHERE profiler <> 'kineto'
),
finding AS (
    SELECT trace_id, unnest([
        {'code': 'left_out', 'severity': 'info', 'count': rows_left, 'message':
            'records of ' || profiler || ' are not in the database: ' || tables},
        {'code': 'whole_graphs', 'severity': 'warning', 'count': graphs, 'message':
            'CUDA graphs were recorded whole, each launch as one op: --cuda-graph-trace=node records '
            || 'their kernels'},
        {'code': 'rounded_times', 'severity': 'info', 'count': rounded, 'message':
            'events were recorded to the picosecond: less than a nanosecond of each is lost'},
        {'code': 'shorter_form', 'severity': 'info', 'count': (said->>'fuller' IS NOT NULL)::BIGINT,
         'message': 'this is a shorter form of the recording: ' || (said->>'fuller')},
        {'code': 'plugin_reader', 'severity': 'info', 'count': (said->>'plugin' IS NOT NULL)::BIGINT,
         'message': 'read by plugin ' || (said->>'plugin')},
        {'code': 'profiler_warned', 'severity': 'warning', 'count': complaints::BIGINT, 'message':
            profiler || ' said: ' || (said->'said'->>0)}
    ], recursive := true)
    FROM counted
)
SELECT trace_id, code, severity, count, message, NULL::BIGINT AS time_ns, NULL::BIGINT AS event_id
FROM finding WHERE count > 0
