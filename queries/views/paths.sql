-- Call paths of the host: slices that were called in the same way, added up.

-- A slice's name in a path: without a step's number, an object's address, or a word before a module's name.
CREATE OR REPLACE MACRO path_name(name, kind, traits) AS
    CASE WHEN has(traits, 'module') THEN module_name(name) WHEN kind = 'python' THEN frame_name(name)
         ELSE regexp_replace(name, '^ProfilerStep#\d+$', 'ProfilerStep') END;

-- The call paths of the traces of a relation (by its name; with trace_id), from those slices that begin from
-- `from_ns` on and before `to_ns` (NULL: all). `node` is a path and `parent` the path without its last frame;
-- the outermost frame is a thread, or with by_thread := FALSE all threads together, so that equal paths of
-- several traces have equal nodes. The GPU ops are leaves below their launch, of the kind gpu; `gpu_ns` is
-- the sum of those inside. Between a graph's launch and its kernels stand the modules and operators that
-- graph_site tells of each, of the kind replayed: the host did not run them; `count` is of runs in replays.
CREATE OR REPLACE MACRO call_paths(traces, from_ns, to_ns, by_thread := TRUE) AS TABLE
WITH RECURSIVE launched AS (
    SELECT trace_id, op.launch_id AS event_id, op.name,
           coalesce(list_concat(modules, operators), []) AS frames,
           list_concat([NULL FOR module IN modules], operator_ids) AS ids, count(*) AS count,
           sum(op.dur_ns)::BIGINT AS gpu_ns
    FROM gpu_ops AS op LEFT JOIN graph_site USING (trace_id, event_id)
    WHERE op.launch_id IS NOT NULL AND trace_id IN (SELECT trace_id FROM query_table(traces))
    GROUP BY ALL
),
-- There are few labels, but many slices.
frame_label AS MATERIALIZED (
    SELECT label_id, kind, path_name(name, kind, traits) AS name,
           has(traits, 'library') AS is_library, has(traits, 'thread_wait') AS is_wait
    FROM slice_label
),
slice AS MATERIALIZED (
    SELECT trace_id, t.tid, event_id, h.parent_id, ts_ns AS start_ns, ts_ns + dur_ns AS end_ns, dur_ns,
           kind, name, is_library, is_wait
    FROM thread_slice AS h JOIN host_thread AS t USING (thread, trace_id)
    JOIN event_row AS e USING (trace_id, event_id) JOIN frame_label USING (label_id)
    WHERE trace_id IN (SELECT trace_id FROM query_table(traces))
        AND ts_ns >= coalesce(from_ns::BIGINT, ts_ns) AND ts_ns < coalesce(to_ns::BIGINT, ts_ns + 1)
),
-- A slice that outlasts the one in which it begins is drawn inside the first around it that lasts as long.
outlasting AS (
    SELECT s.trace_id, s.event_id, s.end_ns, p.parent_id, 1 AS level
    FROM slice AS s JOIN slice AS p ON s.trace_id = p.trace_id AND s.parent_id = p.event_id
    WHERE s.end_ns > p.end_ns
    UNION ALL
    SELECT o.trace_id, o.event_id, o.end_ns, p.parent_id, level + 1
    FROM outlasting AS o JOIN slice AS p ON o.trace_id = p.trace_id AND o.parent_id = p.event_id
    WHERE o.end_ns > p.end_ns
),
moved AS (
    SELECT trace_id, event_id, parent_id FROM outlasting
    QUALIFY row_number() OVER (PARTITION BY trace_id, event_id ORDER BY level DESC) = 1
),
around AS MATERIALIZED (
    SELECT s.* REPLACE (p.event_id AS parent_id),
           CASE WHEN by_thread THEN hash(s.trace_id, s.tid) ELSE hash(0) END AS thread_node,
           CASE WHEN by_thread THEN concat('thread ', s.tid) ELSE 'all threads' END AS thread_name,
           p.event_id IS NULL AS is_outer
    FROM slice AS s LEFT JOIN moved AS m ON s.trace_id = m.trace_id AND s.event_id = m.event_id
    LEFT JOIN slice AS p ON s.trace_id = p.trace_id
        AND CASE WHEN m.event_id IS NULL THEN s.parent_id ELSE m.parent_id END = p.event_id
),
path AS (
    SELECT trace_id, event_id, hash(thread_node, name) AS node, thread_node AS parent, 1 AS depth
    FROM around WHERE is_outer
    UNION ALL
    SELECT s.trace_id, s.event_id, hash(p.node, s.name), p.node, p.depth + 1
    FROM path AS p JOIN around AS s ON p.trace_id = s.trace_id AND p.event_id = s.parent_id
    WHERE NOT s.is_outer
),
-- Level 0 is the GPU op itself.
inside_launch AS (
    SELECT * REPLACE (CASE level WHEN 0 THEN frames ELSE frames[:level - 1] END AS frames,
                      CASE level WHEN 0 THEN name ELSE frames[level] END AS name),
           if(level = 0, 'gpu', 'replayed') AS kind, (event_id, ids[level]) AS run
    FROM (SELECT *, unnest(range(len(frames) + 1)) AS level
          FROM path JOIN launched USING (trace_id, event_id))
),
own AS MATERIALIZED (
    SELECT trace_id, node, parent, depth, any_value(name) AS name, any_value(kind) AS kind,
           bool_or(is_library) AS is_library, bool_or(is_wait) AS is_wait, count(*) AS count,
           sum(dur_ns)::BIGINT AS host_ns, 0::BIGINT AS gpu_ns
    FROM path JOIN around USING (trace_id, event_id) GROUP BY trace_id, node, parent, depth
    UNION ALL
    SELECT trace_id, hash(node, frames, name, kind),
           if(len(frames) > 0, hash(node, frames[:-2], frames[-1], 'replayed'), node),
           depth + 1 + len(frames), name, kind, FALSE, FALSE,
           if(kind = 'gpu', sum(count), count(DISTINCT run) FILTER (kind = 'replayed')), 0,
           sum_where(gpu_ns, kind = 'gpu')
    FROM inside_launch GROUP BY trace_id, node, depth, frames, name, kind
    UNION ALL
    SELECT trace_id, thread_node, NULL, 0, thread_name, 'thread', FALSE, FALSE, count(*),
           sum(dur_ns) FILTER (is_outer), 0
    FROM around GROUP BY trace_id, thread_node, thread_name
),
-- Launches of a path count for all the paths around it.
upward AS (
    SELECT trace_id, node AS holder, parent, gpu_ns FROM own WHERE gpu_ns > 0
    UNION ALL
    SELECT u.trace_id, o.node, o.parent, u.gpu_ns
    FROM upward AS u JOIN own AS o ON u.trace_id = o.trace_id AND u.parent = o.node
),
inclusive AS (
    SELECT trace_id, holder AS node, sum(gpu_ns)::BIGINT AS gpu_ns FROM upward GROUP BY trace_id, holder
)
SELECT o.* REPLACE (coalesce(i.gpu_ns, 0) AS gpu_ns)
FROM own AS o LEFT JOIN inclusive AS i USING (trace_id, node);

-- Frames of a relation (trace_id, node, parent, depth, name, host_ns, gpu_ns, by its name) that take more
-- than thresholds().drawn_share of either time, and where each begins in a drawing: inside the frame around
-- it, the longest first.
CREATE OR REPLACE MACRO laid_out(frames) AS TABLE
WITH RECURSIVE kept AS MATERIALIZED (
    SELECT t.* FROM query_table(frames) AS t JOIN (
        SELECT trace_id, sum(host_ns) AS host_ns, sum(gpu_ns) AS gpu_ns
        FROM query_table(frames) WHERE depth = 0 GROUP BY trace_id
    ) AS whole USING (trace_id)
    WHERE t.host_ns > whole.host_ns * thresholds().drawn_share
        OR t.gpu_ns > whole.gpu_ns * thresholds().drawn_share
),
-- A window over few siblings each would take ten times as long.
inside AS MATERIALIZED (
    SELECT k.*, sum_where(s.host_ns, (s.host_ns, k.name, k.node) > (k.host_ns, s.name, s.node)) AS host_at,
           sum_where(s.gpu_ns, (s.gpu_ns, k.name, k.node) > (k.gpu_ns, s.name, s.node)) AS gpu_at
    FROM kept AS k JOIN kept AS s ON k.trace_id = s.trace_id AND k.parent IS NOT DISTINCT FROM s.parent
    GROUP BY ALL
),
laid AS (
    SELECT *, host_at AS host_from_ns, gpu_at AS gpu_from_ns FROM inside WHERE parent IS NULL
    UNION ALL
    SELECT i.*, l.host_from_ns + i.host_at, l.gpu_from_ns + i.gpu_at
    FROM laid AS l JOIN inside AS i ON l.trace_id = i.trace_id AND l.node = i.parent
)
SELECT * EXCLUDE (host_at, gpu_at) FROM laid;
