-- fact: A kernel of a graph's replay with the captured launch that it came from.
-- needs: gpu_op_launch, gpu_ops
-- of: graph_captures
-- when: call = 'launch_graph'
-- scope: all
-- The captured launch is in its own trace or in another one of the database.
-- by place, wherever the capture tells them: by the launch call (ROCm) or by an operator that is named like
-- its Triton kernel. `matched_share` is the share of these places that agree, `told_share` the share of all
-- places at which the capture tells the kernel. Captures of the replay's own trace come first. If captures of
-- other operators or shapes agree as well, there is no row. A capture that tells no kernel counts only for
-- replays in its own trace.
CREATE TABLE graph_site (
    trace_id      INTEGER, -- the trace
    event_id      BIGINT,  -- the kernel
    launch_id     BIGINT,  -- the replay
    device_id BIGINT,
    place         BIGINT,  -- in the replay, from 1
    name VARCHAR, dur_ns BIGINT, capture_trace_id INTEGER, capture_id BIGINT,
    capture_launch_id BIGINT,
    cpu_op_id     BIGINT,  -- the captured operator
    cpu_op VARCHAR, dims VARCHAR,
    matched_share DOUBLE,  -- of the places at which the capture tells the kernel, those that agree
    told_share    DOUBLE   -- of all places
);
WITH launch AS MATERIALIZED (
    FROM captured_launches WHERE EXISTS (SELECT 1 FROM launches WHERE launched_kind = 'graph')
),
-- The operators of captures, and the innermost one around each launch.
operator AS MATERIALIZED (
    SELECT o.trace_id, o.event_id, o.name, o.pid, o.tid, o.start_ns, o.end_ns, o.dur_ns, o.input_dims
    FROM (FROM cpu_ops SEMI JOIN graph_captures USING (trace_id)) AS o ASOF JOIN graph_captures AS c
      ON o.trace_id = c.trace_id AND o.pid = c.pid AND o.start_ns >= c.start_ns
    WHERE o.start_ns < c.end_ns
),
slice AS MATERIALIZED (
    SELECT trace_id, pid, tid, event_id, start_ns, end_ns, dur_ns FROM operator
    UNION ALL
    SELECT trace_id, pid, tid, event_id, start_ns, start_ns, 0 FROM launch
),
site AS MATERIALIZED (
    SELECT l.trace_id, l.capture_id, l.event_id, l.place, l.start_ns,
           coalesce(l.kernel, CASE WHEN starts_with(o.name, 'triton_') THEN 'triton_' END) AS kernel,
           l.kernel IS NOT NULL AS is_name, o.event_id AS cpu_op_id, o.name AS cpu_op,
           o.input_dims::VARCHAR AS dims
    FROM launch AS l LEFT JOIN nested('slice') AS n USING (trace_id, event_id)
    LEFT JOIN operator AS o ON n.trace_id = o.trace_id AND n.parent_id = o.event_id
),
capture AS (
    SELECT trace_id, capture_id, count(*) AS kernels, min(start_ns) AS start_ns, count(kernel) > 0 AS is_told,
           list({'kernel': kernel, 'is_name': is_name} ORDER BY place) AS told,
           hash(list({'op': cpu_op, 'dims': dims, 'kernel': kernel} ORDER BY place)) AS work
    FROM site GROUP BY ALL
),
replay AS MATERIALIZED (
    SELECT trace_id, launch_id, device_id, min(launch_start_ns) AS start_ns, count(*) AS kernels,
           list(name ORDER BY place) AS names, hash(names) AS sequence
    FROM replayed_kernels GROUP BY trace_id, launch_id, device_id
),
-- Replays repeat, and so do captures: each sequence is compared once.
ran AS (SELECT trace_id, sequence, any_value(names) AS names, any_value(kernels) AS kernels
    FROM replay GROUP BY trace_id, sequence),
compared AS (
    SELECT r.trace_id, r.sequence, c.trace_id AS capture_trace_id, c.work,
           r.trace_id = c.trace_id AS is_own, r.kernels,
           list_filter(list_zip(r.names, c.told), lambda x: x[2].kernel IS NOT NULL) AS known,
           len(list_filter(known, lambda x: CASE WHEN x[2].is_name THEN x[1] = x[2].kernel
               ELSE starts_with(x[1], x[2].kernel) END)) AS agreeing
    FROM ran AS r JOIN (SELECT DISTINCT trace_id, work, kernels, told, is_told FROM capture) AS c
      ON r.kernels = c.kernels AND (r.trace_id = c.trace_id OR c.is_told)
),
fitting AS (
    SELECT *, agreeing / nullif(len(known), 0) AS matched_share, len(known) / kernels AS told_share
    FROM compared
    WHERE agreeing >= thresholds().graph_match_share * len(known)
    QUALIFY rank() OVER (PARTITION BY trace_id, sequence ORDER BY is_own DESC, agreeing DESC) = 1
),
-- Captures of the same operators and shapes are as good as each other.
chosen AS (
    SELECT trace_id, sequence, any_value(work) AS work, min(capture_trace_id) AS capture_trace_id,
           any_value(matched_share) AS matched_share, any_value(told_share) AS told_share
    FROM fitting GROUP BY trace_id, sequence HAVING count(DISTINCT work) = 1
),
-- The last capture before the replay; the first of all if the replay came before, or is of another trace.
taken AS (
    SELECT r.trace_id, r.launch_id, r.device_id, w.capture_trace_id, w.matched_share, w.told_share,
           coalesce(
               arg_max(c.capture_id, c.start_ns)
                   FILTER (c.trace_id = r.trace_id AND c.start_ns <= r.start_ns),
               arg_min(c.capture_id, c.start_ns)) AS capture_id
    FROM replay AS r JOIN chosen AS w USING (trace_id, sequence)
    JOIN capture AS c ON w.capture_trace_id = c.trace_id AND w.work = c.work
    GROUP BY ALL
)
SELECT k.trace_id, k.event_id, k.launch_id, k.device_id, k.place, k.name, k.dur_ns,
       t.capture_trace_id, t.capture_id,
       s.event_id AS capture_launch_id, s.cpu_op_id, s.cpu_op, s.dims,
       t.matched_share, t.told_share
FROM taken AS t JOIN replayed_kernels AS k USING (trace_id, launch_id, device_id)
JOIN site AS s ON t.capture_trace_id = s.trace_id AND t.capture_id = s.capture_id AND k.place = s.place
