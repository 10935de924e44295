-- What the host did, thread by thread. These tables are derived once, at ingest, because nesting is costly to
-- compute and many queries use it. tracekit/ingest/host_tree.py fills the tables of segments and slices:
-- nesting takes one pass with a stack, and is slow and long-winded in SQL.

CREATE TABLE scratch.slice_thread AS
SELECT trace_id, pid, tid, min(start_ns) AS start_ns, max(end_ns) AS end_ns,
       bool_or(kind NOT IN ('kernel', 'memcpy', 'memset')) AS is_host
FROM slices
WHERE kind IN ('annotation', 'python', 'cpu_op', 'runtime', 'driver', 'kernel', 'memcpy', 'memset')
GROUP BY ALL;

-- The time from the first host slice or GPU op to the last, by trace.
CREATE OR REPLACE TABLE trace_span AS
SELECT trace_id, min(start_ns) AS start_ns, max(end_ns) AS end_ns FROM scratch.slice_thread GROUP BY trace_id;

-- The threads of the host, numbered. Each has the start and end of its trace.
CREATE OR REPLACE TABLE host_thread AS
SELECT row_number() OVER (ORDER BY trace_id, pid, tid)::INTEGER AS thread, trace_id, pid, tid, span.start_ns,
       span.end_ns
FROM scratch.slice_thread JOIN trace_span AS span USING (trace_id) WHERE is_host;

-- The time of each thread cut wherever a slice begins or ends, from the trace's start to its end, without
-- gap or overlap: `event_id` is the innermost slice (NULL: no slice is open), `activity` what the thread is
-- busy with. Everything inside a slice of data loading or compilation has that slice's activity. `segment`
-- grows with time; its numbers are unique over all threads.
CREATE OR REPLACE TABLE thread_segment (
    thread INTEGER, segment BIGINT, start_ns BIGINT, end_ns BIGINT, event_id BIGINT, activity_code UTINYINT
);
CREATE OR REPLACE VIEW host_segment AS
SELECT trace_id, pid, tid, segment, s.start_ns, s.end_ns, event_id,
       host_activity_of(activity_code) AS activity
FROM thread_segment AS s JOIN host_thread USING (thread);

-- The tree of host slices: depth from 1, the enclosing slice, and the time not spent in inner slices. And
-- where in the program each is: the innermost and the outermost operator, the innermost Python frame and the
-- innermost line of the program that it is or is inside, and the innermost module around it.
CREATE OR REPLACE TABLE thread_slice (
    thread INTEGER, event_id BIGINT, depth INTEGER, parent_id BIGINT, self_ns BIGINT,
    cpu_op_id BIGINT, outer_op_id BIGINT, python_id BIGINT, line_id BIGINT, module_id BIGINT
);
CREATE OR REPLACE VIEW host_slice AS
SELECT trace_id, event_id, pid, tid, depth, parent_id, self_ns FROM thread_slice
JOIN host_thread USING (thread);
CREATE OR REPLACE VIEW host_site AS
SELECT trace_id, event_id, cpu_op_id, outer_op_id, python_id, line_id, module_id FROM thread_slice
JOIN host_thread USING (thread);

-- Launches of GPU ops with the innermost operator, Python frame and module around each.
CREATE OR REPLACE VIEW launch_site AS
SELECT trace_id, event_id AS launch_id, cpu_op_id, python_id, module_id FROM host_site
WHERE (trace_id, event_id) IN (SELECT (trace_id, launch_id) FROM gpu_op_launch);
