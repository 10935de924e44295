-- fact: A capture, and how often it recurs: `recurs` says whether it is more than a start.
-- needs: thread_slice, launch_call, judged_steps, graph_node
-- of: capture_calls
-- Captures of the same work (operators, shapes, modules; kernels and grids of the next replay) recur with a
-- replay between two. A replay inside a capturing operator does not count: identical layers have
-- separate graphs.
CREATE TABLE recurring_capture (
    trace_id INTEGER, capture_id BIGINT, -- the call that begins it
    steps INTEGER, in_steps INTEGER, -- marked steps, and those with captures
    quarters INTEGER -- quarters of the launches with captures of this work; 0: no replay between two
);
WITH replay AS MATERIALIZED (
    SELECT r.trace_id, r.pid, r.event_id, r.start_ns,
           (r.trace_id, coalesce(outer_op_id, -1)) IN (SELECT (h.trace_id, h.outer_op_id)
               FROM capture_calls AS c JOIN thread_slice AS h
                 ON c.trace_id = h.trace_id AND c.capture_id = h.event_id
               WHERE h.outer_op_id IS NOT NULL) AS captures
    FROM (FROM runtime_calls SEMI JOIN graph_captures USING (trace_id) WHERE call = 'launch_graph') AS r
    LEFT JOIN thread_slice USING (trace_id, event_id)
),
captured AS (
    SELECT trace_id, capture_id,
           hash(list({'op': cpu_op, 'dims': dims, 'modules': modules, 'kernel': kernel} ORDER BY place))
               AS work
    FROM captured_site GROUP BY ALL
),
ran AS (
    SELECT c.trace_id, c.capture_id,
           hash(list({'name': k.name, 'grid': k.args->>'grid'} ORDER BY k.name, k.args->>'grid')) AS ran
    FROM capture_calls AS c ASOF JOIN replay AS r
      ON c.trace_id = r.trace_id AND c.pid = r.pid AND c.start_ns <= r.start_ns
    JOIN replayed_kernels AS k ON r.trace_id = k.trace_id AND r.event_id = k.launch_id GROUP BY ALL
),
known AS (
    SELECT c.trace_id, c.capture_id, c.pid, c.start_ns, c.end_ns, hash(w.work, r.ran) AS work,
           floor(4 * coalesce(p.done, 0)) AS quarter, s.step, s.steps
    FROM capture_calls AS c LEFT JOIN captured AS w USING (trace_id, capture_id)
    LEFT JOIN ran AS r USING (trace_id, capture_id)
    ASOF LEFT JOIN (
        SELECT trace_id, start_ns, percent_rank() OVER (PARTITION BY trace_id ORDER BY start_ns) AS done
        FROM launch_call SEMI JOIN capture_calls USING (trace_id)
    ) AS p ON c.trace_id = p.trace_id AND c.start_ns >= p.start_ns
    ASOF LEFT JOIN (
        SELECT trace_id, start_ns, event_id AS step, count(*) OVER (PARTITION BY trace_id) AS steps FROM steps
        WHERE event_id >= 0
    ) AS s ON c.trace_id = s.trace_id AND c.start_ns >= s.start_ns
),
again AS (
    SELECT k.*, r.start_ns >= lag(k.end_ns) OVER same_work AS is_replayed_before
    FROM known AS k ASOF LEFT JOIN (FROM replay WHERE NOT captures) AS r
      ON k.trace_id = r.trace_id AND k.pid = r.pid AND k.start_ns >= r.start_ns
    WINDOW same_work AS (PARTITION BY k.trace_id, k.pid, work ORDER BY k.start_ns)
),
counted AS (
    SELECT *, count(DISTINCT step) OVER (PARTITION BY trace_id) AS steps_with,
           count(DISTINCT quarter) OVER same_work AS quarters_with,
           coalesce(bool_or(is_replayed_before) OVER same_work, FALSE) AS is_replayed
    FROM again WINDOW same_work AS (PARTITION BY trace_id, pid, work)
)
SELECT trace_id, capture_id, coalesce(steps, 0), steps_with, if(is_replayed, quarters_with, 0) FROM counted
