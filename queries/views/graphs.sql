-- CUDA and HIP graphs: what a capture recorded, and the captured operators of each replay's kernels.

-- The captures of graphs, from the call that begins one to the call that ends it.
-- https://docs.nvidia.com/cuda/cuda-c-programming-guide/#creating-a-graph-using-stream-capture
CREATE OR REPLACE VIEW graph_captures AS
SELECT trace_id, capture_id, pid, tid, start_ns, end_ns FROM (
    SELECT trace_id, pid, tid, event_id AS capture_id, start_ns, call = 'begin_capture' AS begins,
           lead(end_ns) OVER (PARTITION BY trace_id, pid, tid ORDER BY start_ns, event_id) AS end_ns
    FROM runtime_calls WHERE call IN ('begin_capture', 'end_capture')
)
WHERE begins AND end_ns IS NOT NULL;

-- Launches of kernels that a graph's capture recorded instead of running: those of the capture's process,
-- during the capture, that have no GPU op. `place` counts them within the capture, from 1; `kernel` is the
-- kernel's name, which ROCm's launch calls carry and CUDA's do not.
CREATE OR REPLACE VIEW captured_launches AS
WITH recorded AS (
    SELECT l.trace_id, capture_id, l.event_id, l.pid, l.tid, l.start_ns, l.dur_ns, l.name,
           l.args->>'kernel' AS kernel
    FROM (FROM launches SEMI JOIN graph_captures USING (trace_id)) AS l ASOF JOIN graph_captures AS c
      ON l.trace_id = c.trace_id AND l.pid = c.pid AND l.start_ns >= c.start_ns
    WHERE launched_kind = 'kernel' AND l.start_ns < c.end_ns
)
SELECT r.*, row_number() OVER (PARTITION BY trace_id, capture_id ORDER BY start_ns, event_id) AS place
FROM recorded AS r
WHERE NOT EXISTS (SELECT 1 FROM gpu_op_launch AS l
                  WHERE l.trace_id = r.trace_id AND l.launch_id = r.event_id);

-- Kernels that a graph's replay ran, in the order of the graph's nodes, or by start where the trace does not
-- number those.
CREATE OR REPLACE VIEW replayed_kernels AS
SELECT g.trace_id, l.launch_id, g.device_id, g.event_id, g.name, g.dur_ns, l.launch_start_ns,
       row_number() OVER (PARTITION BY g.trace_id, l.launch_id, g.device_id
           ORDER BY TRY_CAST(e.args->>'graph node id' AS UBIGINT), g.start_ns, g.event_id) AS place
FROM gpu_op_launch AS l
JOIN gpu_ops AS g ON l.trace_id = g.trace_id AND l.event_id = g.event_id
JOIN event_row AS e ON g.trace_id = e.trace_id AND g.event_id = e.event_id
WHERE l.is_graph AND g.kind = 'kernel';

-- Each kernel of a graph's replay with the captured launch that it came from, in its own trace or in another
-- one of the database. A replay belongs to a capture of as many launches if the kernels' names agree, place
-- by place, wherever the capture tells them: by the launch call (ROCm) or by an operator that is named like
-- its Triton kernel. `matched_share` is the share of these places that agree, `told_share` the share of all
-- places at which the capture tells the kernel. Captures of the replay's own trace come first. If captures of
-- other operators or shapes agree as well, there is no row. A capture that tells no kernel counts only for
-- replays in its own trace.
CREATE OR REPLACE MACRO graph_sites() AS TABLE
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
JOIN site AS s ON t.capture_trace_id = s.trace_id AND t.capture_id = s.capture_id AND k.place = s.place;

-- The operators that a graph's replay ran, with their work (a relation like worked_operators(), by its name)
-- by the shapes of the capture, and the sum of their kernels' times: measured_work_of() for replays.
CREATE OR REPLACE MACRO replayed_work_of(worked) AS TABLE
WITH run AS (
    SELECT trace_id, launch_id, device_id, capture_trace_id, cpu_op_id, sum(dur_ns)::BIGINT AS busy_ns,
           list(event_id ORDER BY place) AS gpu_op_ids, bool_or(is_tf32) AS is_tf32
    FROM graph_sites()
    LEFT JOIN (SELECT name, has(traits, 'tf32') AS is_tf32 FROM gpu_op_name WHERE kind = 'kernel')
        USING (name)
    WHERE cpu_op_id IS NOT NULL AND trace_id = coalesce(getvariable('trace'), trace_id)
    GROUP BY ALL
)
SELECT r.trace_id, r.launch_id, o.name, o.dims, is_matrix, flops, read_bytes, written_bytes, r.device_id,
       CASE WHEN is_matrix AND is_tf32 AND peak = 'fp32' THEN 'tf32' ELSE peak END AS peak,
       gpu_op_ids, busy_ns
FROM run AS r JOIN query_table(worked) AS o
  ON r.capture_trace_id = o.trace_id AND r.cpu_op_id = o.event_id
WHERE busy_ns > 0;
