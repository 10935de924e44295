-- question: On the thread that runs most operators, how much time computes, and how much is overhead?
-- param trace (integer, default all): the trace_id to look at
-- column trace_id (id): the trace
-- column pid (id): process of that thread
-- column tid (id): that thread
-- column kind (text): host_active (the profiler's steps, or first operator to last where none are marked), step or trace
-- column name (text): the window's name
-- column start_ns (ns): where the window begins
-- column end_ns (ns): where it ends
-- column span_ns (ns): its length; the times below add up to it exactly
-- column operators (count): operators that begin in it
-- column launches (count): calls in the trace that enqueued work for a device
-- column compute_ns (ns): operators that compute, in their own time, and compiled graphs
-- column dispatch_ns (ns): operators that mostly call others
-- column view_ns (ns): operators that only describe memory
-- column python_ns (ns): Python frames
-- column input_ns (ns): data loading
-- column compilation_ns (ns): torch.compile, Triton and code loading
-- column runtime_ns (ns): calls of a device's runtime or driver
-- column untraced_ns (ns): in no recorded slice: Python, or native code, that was not recorded
-- An operator computes when it is no metadata operator and spends at least as long in itself as in the
-- computing operators it calls; the own time of a small one contains its dispatch, which no trace tells apart.
WITH operator AS (
    SELECT h.trace_id, h.event_id, h.pid, h.tid, h.parent_id, h.self_ns, o.start_ns, o.end_ns, o.dur_ns, is_metadata_operator(o.name) AS is_view, is_calling_operator(o.name) AS is_frame
    FROM host_slice AS h JOIN cpu_ops AS o USING (trace_id, event_id)
    WHERE h.trace_id = coalesce(getvariable('trace'), h.trace_id)
),
called AS (
    SELECT trace_id, parent_id AS event_id, sum(dur_ns) AS called_ns FROM operator WHERE NOT is_view GROUP BY ALL
),
thread AS (
    SELECT trace_id, arg_max(pid, ns) AS pid, arg_max(tid, ns) AS tid
    FROM (SELECT trace_id, pid, tid, sum(self_ns) AS ns FROM operator GROUP BY ALL) GROUP BY ALL
),
role AS (
    SELECT o.trace_id, o.event_id, o.start_ns, CASE WHEN is_view THEN 'view' WHEN is_frame THEN 'dispatch'
               WHEN self_ns >= coalesce(called_ns, 0) THEN 'compute' ELSE 'dispatch' END AS role
    FROM operator AS o JOIN thread USING (trace_id, pid, tid) LEFT JOIN called USING (trace_id, event_id)
),
-- Inductor's kernels have no slice of their own on a CPU: they run inside their graph's annotation.
generated AS (
    SELECT trace_id, event_id, 'compute' AS role FROM annotations WHERE side = 'host' AND name LIKE '## Call CompiledFxGraph%'
),
extent AS (
    SELECT trace_id, min(start_ns) AS start_ns, max(end_ns) AS end_ns FROM operator JOIN thread USING (trace_id, pid, tid) GROUP BY ALL
),
step AS (SELECT trace_id, name, start_ns, end_ns FROM steps),
win AS (
    SELECT trace_id, 'host_active' AS kind, 'profiler steps' AS name, min(start_ns) AS start_ns, max(end_ns) AS end_ns FROM step GROUP BY ALL
    UNION ALL
    SELECT trace_id, 'host_active', 'first operator to last', start_ns, end_ns FROM extent WHERE trace_id NOT IN (SELECT trace_id FROM step)
    UNION ALL
    SELECT trace_id, 'step', name, start_ns, end_ns FROM step
    UNION ALL
    SELECT trace_id, 'trace', 'whole trace', start_ns, end_ns FROM trace_span
),
-- The thread's segments that a window touches, found by their numbers.
opening AS (
    SELECT w.*, s.pid, s.tid, s.segment AS first_segment
    FROM win AS w JOIN thread USING (trace_id) ASOF JOIN host_segment AS s
      ON w.trace_id = s.trace_id AND thread.pid = s.pid AND thread.tid = s.tid AND w.start_ns >= s.start_ns
),
touched AS (
    SELECT o.*, unnest(generate_series(first_segment, s.segment)) AS segment
    FROM opening AS o ASOF JOIN host_segment AS s
      ON o.trace_id = s.trace_id AND o.pid = s.pid AND o.tid = s.tid AND o.end_ns > s.start_ns
),
piece AS (
    SELECT w.trace_id, w.pid, w.tid, w.kind, w.name, w.start_ns, w.end_ns,
           CASE WHEN s.activity IN ('dispatch', 'untraced') THEN coalesce(r.role, g.role, s.activity)
                WHEN s.activity IN ('launch', 'sync', 'copy', 'allocation') THEN 'runtime'
                ELSE s.activity END AS role,
           greatest(0, least(s.end_ns, w.end_ns) - greatest(s.start_ns, w.start_ns)) AS ns
    FROM touched AS w JOIN host_segment AS s USING (trace_id, pid, tid, segment)
    LEFT JOIN role AS r ON s.trace_id = r.trace_id AND s.event_id = r.event_id
    LEFT JOIN generated AS g ON s.trace_id = g.trace_id AND s.event_id = g.event_id
)
SELECT
    trace_id, pid, tid, kind, name, start_ns, end_ns, end_ns - start_ns AS span_ns,
    (SELECT count(*) FROM role AS r WHERE r.trace_id = piece.trace_id AND r.start_ns >= piece.start_ns AND r.start_ns < piece.end_ns) AS operators,
    (SELECT count(*) FROM launches AS l WHERE l.trace_id = piece.trace_id) AS launches,
    coalesce(sum(ns) FILTER (role = 'compute'), 0)::BIGINT AS compute_ns,
    coalesce(sum(ns) FILTER (role = 'dispatch'), 0)::BIGINT AS dispatch_ns,
    coalesce(sum(ns) FILTER (role = 'view'), 0)::BIGINT AS view_ns,
    coalesce(sum(ns) FILTER (role = 'python'), 0)::BIGINT AS python_ns,
    coalesce(sum(ns) FILTER (role = 'input'), 0)::BIGINT AS input_ns,
    coalesce(sum(ns) FILTER (role = 'compilation'), 0)::BIGINT AS compilation_ns,
    coalesce(sum(ns) FILTER (role = 'runtime'), 0)::BIGINT AS runtime_ns,
    coalesce(sum(ns) FILTER (role = 'untraced'), 0)::BIGINT AS untraced_ns
FROM piece
GROUP BY trace_id, pid, tid, kind, name, start_ns, end_ns
ORDER BY trace_id, kind, start_ns
