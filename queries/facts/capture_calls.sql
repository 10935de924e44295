-- fact: A capture of a graph with the calls right after it that make the graph.
-- of: graph_captures
-- If an operator contains it and others of that name do without one, the whole operator is the call:
-- torch.compile's also synchronize, collect garbage and free memory before they capture.
CREATE TABLE capture_calls (
    trace_id INTEGER, capture_id BIGINT,
    event_id BIGINT,  -- the operator, else the call that begins the capture
    operator VARCHAR, pid BIGINT, tid BIGINT, start_ns BIGINT, end_ns BIGINT,
    usual_ns BIGINT   -- the median of those operators without a capture; 0: no such operator
);
WITH graph_call AS (
    SELECT trace_id, pid, tid, event_id, start_ns, end_ns, call,
           count(*) FILTER (call IN ('begin_capture', 'launch_graph'))
               OVER (PARTITION BY trace_id, pid, tid ORDER BY start_ns, event_id) AS part
    FROM runtime_calls SEMI JOIN graph_captures USING (trace_id)
    WHERE call IN ('begin_capture', 'launch_graph', 'instantiate_graph', 'manage_graph')
),
made AS (
    SELECT b.trace_id, b.capture_id, b.pid, b.tid, b.start_ns, max(greatest(b.end_ns, c.end_ns)) AS end_ns
    FROM graph_captures AS b JOIN graph_call AS g ON b.trace_id = g.trace_id AND b.capture_id = g.event_id
    JOIN graph_call AS c ON c.trace_id = g.trace_id AND c.pid = g.pid AND c.tid = g.tid AND c.part = g.part
    WHERE c.start_ns < b.end_ns + thresholds().after_capture_ns AND c.call <> 'launch_graph'
    GROUP BY ALL
),
around AS MATERIALIZED (
    SELECT m.capture_id, o.trace_id, o.event_id, o.name, o.start_ns, o.end_ns
    FROM made AS m JOIN cpu_ops AS o
      ON o.trace_id = m.trace_id AND o.pid = m.pid AND o.tid = m.tid AND o.start_ns <= m.start_ns
        AND o.end_ns >= m.end_ns
    QUALIFY row_number() OVER (PARTITION BY m.trace_id, m.capture_id ORDER BY o.start_ns DESC) = 1
),
without AS (
    SELECT trace_id, name, median(dur_ns)::BIGINT AS usual_ns
    FROM cpu_ops SEMI JOIN around USING (trace_id, name) ANTI JOIN around USING (trace_id, event_id)
    GROUP BY ALL
)
SELECT m.trace_id, m.capture_id, coalesce(o.event_id, m.capture_id) AS event_id, o.name AS operator, m.pid,
       m.tid, coalesce(o.start_ns, m.start_ns) AS start_ns, coalesce(o.end_ns, m.end_ns) AS end_ns,
       coalesce(usual_ns, 0) AS usual_ns
FROM made AS m LEFT JOIN (FROM around JOIN without USING (trace_id, name)) AS o
  ON m.trace_id = o.trace_id AND m.capture_id = o.capture_id
