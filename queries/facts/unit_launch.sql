-- fact: A launch as units of work are found by it, with the outermost operator around it.
-- needs: launch_call, thread_slice, graph_captures
-- What is launched tells which launches are alike. Where kernels are missing, their operators tell. Where
-- most GPU ops have no launch, the device's time stands in for the host's; in a trace without GPU ops and
-- launches, outermost operators stand in for launches.
CREATE TABLE _scratch.unit_launch (
    trace_id INTEGER, pid BIGINT, tid BIGINT, event_id BIGINT, start_ns BIGINT, end_ns BIGINT,
    outer_start_ns BIGINT, outer_end_ns BIGINT, -- of the outermost operator around it, else its own
    label   BIGINT,      -- what it launched: by the label of its first GPU op, and whether that is in a graph
    gpu_ops BIGINT,
    gpu_ns  BIGINT,      -- their summed durations; an operator's own
    done_ns BIGINT,      -- when the last of them ended
    is_transfer BOOLEAN, -- it copies from or to the host
    is_graph BOOLEAN
);
WITH call AS MATERIALIZED (
    SELECT trace_id, launch_id AS event_id, pid, tid, launch_start_ns, launch_end_ns,
           -- By start, then by event.
           2 * arg_min(label_id, start_ns::HUGEINT * (1::BIGINT << 32) + g.event_id) + is_graph::INTEGER
               AS label,
           count(*) AS gpu_ops, sum(dur_ns)::BIGINT AS gpu_ns, max(end_ns) AS done_ns,
           coalesce(bool_or(copy_kind IN ('HtoD', 'DtoH')), FALSE) AS is_transfer, is_graph
    FROM gpu_ops AS g WHERE launch_id IS NOT NULL
    GROUP BY trace_id, launch_id, pid, tid, launch_start_ns, launch_end_ns, is_graph
),
lost AS (
    SELECT l.trace_id, l.event_id, l.pid, l.tid, l.start_ns AS launch_start_ns, l.end_ns AS launch_end_ns,
           launched_kind = 'memcpy' AS is_transfer, launched_kind = 'graph' AS is_graph
    FROM (
        FROM launches AS l ANTI JOIN launch_call AS c ON l.trace_id = c.trace_id AND l.event_id = c.launch_id
    ) AS l
    -- What a graph's capture records is not launched.
    ASOF LEFT JOIN graph_captures AS c
      ON l.trace_id = c.trace_id AND l.pid = c.pid AND l.tid = c.tid AND l.start_ns >= c.start_ns
    WHERE c.end_ns IS NULL OR l.start_ns >= c.end_ns
),
traced AS (
    SELECT trace_id, coalesce(g.pid, -1) AS pid, trace_id NOT IN (FROM unlaunched_traces) AS by_host,
           lost > thresholds().unit_lost_share * calls AS lacks_ops
    FROM (
        SELECT trace_id, count(*) AS calls, count(*) FILTER (is_lost) AS lost
        FROM (SELECT trace_id, FALSE AS is_lost FROM launch_call UNION ALL SELECT trace_id, TRUE FROM lost)
        GROUP BY trace_id)
    FULL JOIN (SELECT trace_id, mode(pid ORDER BY pid) AS pid FROM gpu_ops GROUP BY trace_id) AS g
        USING (trace_id)
),
launch AS (
    FROM call SEMI JOIN (FROM traced WHERE by_host) USING (trace_id)
    UNION ALL BY NAME
    FROM lost SEMI JOIN (FROM traced WHERE by_host AND lacks_ops) USING (trace_id)
),
-- Joins have few columns: those of all launches would not fit in memory.
site AS (
    SELECT l.trace_id, l.event_id, o.ts_ns AS outer_start_ns, o.ts_ns + o.dur_ns AS outer_end_ns
    FROM (
        SELECT trace_id, launch_id AS event_id FROM launch_call UNION ALL SELECT trace_id, event_id FROM lost
    ) AS l
    JOIN thread_slice AS t ON l.trace_id = t.trace_id AND l.event_id = t.event_id
    JOIN event_row AS o ON t.trace_id = o.trace_id AND t.outer_op_id = o.event_id
)
SELECT c.trace_id, c.pid, c.tid, c.event_id, launch_start_ns, launch_end_ns,
       coalesce(outer_start_ns, launch_start_ns), coalesce(outer_end_ns, launch_end_ns),
       CASE WHEN lacks_ops THEN -1 - 2 * e.label - is_graph::INTEGER ELSE c.label END,
       coalesce(gpu_ops, 0), coalesce(gpu_ns, 0), coalesce(done_ns, launch_end_ns), is_transfer, is_graph
FROM launch AS c JOIN traced USING (trace_id)
LEFT JOIN site AS s ON c.trace_id = s.trace_id AND c.event_id = s.event_id
LEFT JOIN (
    SELECT trace_id, event_id, coalesce(op_label, label_id) AS label
    FROM event_row LEFT JOIN thread_slice USING (trace_id, event_id)
    SEMI JOIN (FROM traced WHERE lacks_ops) USING (trace_id)
) AS e ON c.trace_id = e.trace_id AND c.event_id = e.event_id
UNION ALL
SELECT trace_id, t.pid, stream, event_id, start_ns, start_ns, start_ns, start_ns, 2 * label_id, 1, dur_ns,
       end_ns, coalesce(copy_kind IN ('HtoD', 'DtoH'), FALSE), FALSE
FROM gpu_ops JOIN traced AS t USING (trace_id) WHERE NOT by_host
UNION ALL
SELECT trace_id, o.pid, o.tid, event_id, o.start_ns, o.end_ns, o.start_ns, o.end_ns, 2 * label_id, 0,
       o.dur_ns, o.end_ns, FALSE, FALSE
FROM (FROM trace ANTI JOIN traced USING (trace_id)) JOIN thread_slice AS t USING (trace_id)
JOIN slices AS o USING (trace_id, event_id)
WHERE t.outer_op_id = event_id AND o.kind = 'cpu_op'
