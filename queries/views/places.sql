-- The call sites of a trace's events, in a few words: for remedies.

-- The name of an event; NULL: of none.
CREATE OR REPLACE MACRO name_of(of_trace, of_event) AS (
    SELECT l.name FROM event_row AS e(e_trace, e_event, e_label) JOIN label AS l ON e_label = l.label_id
    WHERE e_trace = of_trace AND e_event = of_event);

-- The rows of a relation of host events (with trace_id and event_id, by its name), each with its call site:
-- the innermost line of the program that it is or is inside; without recorded stacks, the module, else the
-- outermost operator. And the innermost operator (id, traits), frame and module (ids).
CREATE OR REPLACE MACRO placed(events) AS TABLE
SELECT e.*, o.name AS cpu_op, cpu_op_id, o.traits AS op_traits, python_id, module_id,
       CASE WHEN line_id IS NULL AND module_id IS NOT NULL THEN module_name(p.name) ELSE p.name END AS place
FROM query_table(events) AS e LEFT JOIN host_site AS s ON e.trace_id = s.trace_id AND e.event_id = s.event_id
LEFT JOIN slice_label AS p ON place_label = p.label_id LEFT JOIN slice_label AS o ON op_label = o.label_id;

-- Rows of a relation (trace_id, place, told, ns) with `detail`: the text (told) of most time at that place.
CREATE OR REPLACE MACRO detailed(rows) AS TABLE
SELECT *, arg_max(told, (told_ns, told)) OVER (PARTITION BY trace_id, place) AS detail
FROM (SELECT *, sum(ns) OVER (PARTITION BY trace_id, place, told) AS told_ns FROM query_table(rows));

-- GPU ops (trace_id, gpu_op_id, and event_id: the launch, the operator, or NULL) with the call site of their
-- operator, as in `placed`. In a replay, it is that of the captured launch, or from the kernel's annotation.
CREATE OR REPLACE MACRO placed_ops(ops) AS TABLE
WITH known AS (
    SELECT o.* REPLACE (CASE WHEN g.capture_trace_id = o.trace_id
                   AND coalesce(o.event_id, g.launch_id) = g.launch_id
               THEN g.capture_launch_id ELSE o.event_id END AS event_id),
           CASE WHEN g.capture_trace_id IS DISTINCT FROM o.trace_id
               THEN coalesce(g.python_line, g.modules[-1]) END AS known_place
    FROM query_table(ops) AS o LEFT JOIN graph_site AS g
      ON o.trace_id = g.trace_id AND o.gpu_op_id = g.event_id
)
SELECT * EXCLUDE known_place REPLACE (coalesce(known_place, place) AS place) FROM placed('known');

-- The rows of a remedy that changes GPU ops: those of a relation (with trace_id, event_id, target, gpu_op_id,
-- start_ns, dur_ns, factor, told and ns, by its name), where event_id is as in placed_ops.
CREATE OR REPLACE MACRO changed_ops(ops) AS TABLE
WITH at_place AS (FROM placed_ops(ops))
SELECT trace_id, place, detail, target, gpu_op_id AS event_id, NULL AS pid, NULL AS tid, start_ns, dur_ns,
       factor
FROM detailed('at_place');

-- How many launches of a relation the host makes between two waits of another, in a trace's typical launch,
-- and how many such stretches there are: a single one may be as short as the recording.
CREATE OR REPLACE MACRO stretches(launches, waits) AS TABLE
SELECT trace_id, sum(n * n) / sum(n) AS launches, count(*) AS stretches FROM (
    SELECT l.trace_id, count(*) AS n FROM query_table(launches) AS l ASOF LEFT JOIN query_table(waits) AS w
      ON l.trace_id = w.trace_id AND l.end_ns <= w.start_ns
    GROUP BY l.trace_id, w.event_id)
GROUP BY trace_id;

-- The host's reads of device values: the outermost operator, or the printing of a tensor, that only reads,
-- with the view just before it that only it reads. `purpose`: 'sizes' of an exchange between ranks, a
-- 'result' (the copies between two kernels are large, or a pass ends with them), or a 'value' to log.
-- `user_range` is the innermost range that the program opened around it.
CREATE OR REPLACE MACRO device_reads() AS TABLE
WITH call AS (
    SELECT w.*, o.name AS cpu_op FROM waiting_call AS w
    LEFT JOIN host_site AS s ON w.trace_id = s.trace_id AND w.event_id = s.event_id
    LEFT JOIN slice_label AS o ON op_label = o.label_id
    WHERE is_read AND (is_printed OR NOT is_sized) AND is_asked(w.trace_id)
),
reading AS (
    SELECT trace_id, event_id, pid, tid, name, start_ns, end_ns, has(traits, 'reads_device') AS is_scalar
    FROM slices SEMI JOIN call USING (trace_id, pid, tid)
    WHERE list_has_any(traits, ['tensor_text', 'reads_device', 'copies'])
    QUALIFY is_outermost((trace_id, pid, tid), start_ns, end_ns)
),
around AS (
    SELECT r.trace_id, r.event_id, r.pid, r.tid, r.start_ns, r.end_ns, r.is_scalar,
           bool_or(is_printed) AS is_printed,
           if(bool_or(is_printed), 'a tensor is printed', min(cpu_op)) AS detail
    FROM call AS c ASOF JOIN reading AS r
      ON c.trace_id = r.trace_id AND c.pid = r.pid AND c.tid = r.tid AND c.start_ns >= r.start_ns
    WHERE c.start_ns < r.end_ns GROUP BY ALL
),
kernel AS (
    SELECT l.trace_id, l.launch_id, l.pid, l.tid, l.start_ns, c.type
    FROM launch_call AS l JOIN gpu_ops AS k ON l.trace_id = k.trace_id AND l.op_id = k.event_id
    LEFT JOIN (SELECT trace_id, event_id, type FROM collective) AS c
        ON l.trace_id = c.trace_id AND l.op_id = c.event_id
    WHERE k.kind = 'kernel'
),
copied AS (
    SELECT a.trace_id, a.event_id, sum(bytes) AS bytes
    FROM (FROM gpu_ops WHERE copy_kind = 'DtoH' AND launch_id IS NOT NULL) AS c ASOF JOIN around AS a
      ON c.trace_id = a.trace_id AND c.pid = a.pid AND c.tid = a.tid AND c.launch_start_ns >= a.start_ns
    WHERE c.launch_start_ns < a.end_ns GROUP BY ALL
),
ranged AS (
    SELECT a.trace_id, a.event_id, arg_max(r.name, r.start_ns) AS user_range,
           bool_or(has(r.traits, 'exchanges_sizes')) AS is_exchange
    FROM around AS a JOIN annotations AS r ON a.trace_id = r.trace_id AND a.pid = r.pid AND a.tid = r.tid
        AND a.start_ns BETWEEN r.start_ns AND r.end_ns
    WHERE side = 'host' AND NOT list_has_any(r.traits, ['step', 'collective_call', 'compiled_graph'])
    GROUP BY ALL
),
followed AS (
    SELECT a.*, k.launch_id AS next_id, k.type AS next_type, s.event_id AS step_id,
           CASE WHEN a.start_ns < s.end_ns THEN (k.start_ns < s.end_ns) IS NOT TRUE
                ELSE k.launch_id IS NULL END AS is_last
    FROM around AS a
    ASOF LEFT JOIN kernel AS k
      ON a.trace_id = k.trace_id AND a.pid = k.pid AND a.tid = k.tid AND a.end_ns <= k.start_ns
    ASOF LEFT JOIN steps AS s
      ON a.trace_id = s.trace_id AND a.pid = s.pid AND a.tid = s.tid AND a.start_ns >= s.start_ns
),
grouped AS (
    SELECT f.*, user_range, is_exchange, max(bytes) OVER here AS most_bytes, sum(bytes) OVER here AS all_bytes
    FROM followed AS f LEFT JOIN copied USING (trace_id, event_id) LEFT JOIN ranged USING (trace_id, event_id)
    WINDOW here AS (PARTITION BY f.trace_id, pid, tid, step_id, next_id)
),
site AS (FROM host_site SEMI JOIN call USING (trace_id)),
-- The operator that ended last before the read: a view that launches nothing.
before AS (
    SELECT g.trace_id, g.event_id, o.start_ns AS view_ns
    FROM grouped AS g ASOF JOIN (
        SELECT trace_id, event_id, pid, tid, start_ns, end_ns, traits FROM cpu_ops
        SEMI JOIN call USING (trace_id, pid, tid)) AS o
      ON g.trace_id = o.trace_id AND g.pid = o.pid AND g.tid = o.tid AND g.start_ns >= o.end_ns
    JOIN site AS s ON g.trace_id = s.trace_id AND g.event_id = s.event_id
    JOIN site AS v ON o.trace_id = v.trace_id AND o.event_id = v.event_id
    WHERE has(o.traits, 'metadata') AND NOT has(o.traits, 'reads_device')
        AND s.line_id IS NOT DISTINCT FROM v.line_id AND s.module_id IS NOT DISTINCT FROM v.module_id
        AND g.start_ns - o.end_ns < g.end_ns - g.start_ns
)
SELECT g.trace_id, g.event_id, pid, tid, coalesce(view_ns, start_ns) AS start_ns, end_ns,
       end_ns - coalesce(view_ns, start_ns) AS dur_ns, detail, user_range,
       CASE WHEN is_printed THEN 'value'
            WHEN is_exchange OR NOT is_scalar AND next_type IN ('alltoall', 'sendrecv') THEN 'sizes'
            WHEN is_scalar THEN 'value'
            WHEN all_bytes >= thresholds().result_bytes THEN 'result'
            WHEN is_last AND most_bytes > thresholds().scalar_bytes THEN 'result'
            ELSE 'value' END AS purpose
FROM grouped AS g LEFT JOIN before USING (trace_id, event_id);
