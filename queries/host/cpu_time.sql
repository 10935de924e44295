-- question: On the thread that runs most operators, how much time is computation and how much is overhead?
-- param trace (integer, default all): the trace_id to look at
-- column trace_id (id): the trace
-- column pid (id): process of that thread
-- column tid (id): that thread
-- column kind (text): host_active (the profiler's steps; without marked steps, first operator to last), step
--     or trace
-- column name (text): the window's name
-- column start_ns (ns): where the window begins
-- column end_ns (ns): where it ends
-- column span_ns (ns): its length; the times below add up to it exactly
-- column operators (count): operators that begin in it
-- column launches (count): calls in the trace that enqueued work for a device
-- column compute_ns (ns): own time of operators that compute, and time in compiled graphs
-- column dispatch_ns (ns): own time of operators that mostly call other operators
-- column view_ns (ns): own time of operators that only describe memory (views, queries)
-- column python_ns (ns): Python frames
-- column input_ns (ns): data loading
-- column compilation_ns (ns): torch.compile, Triton and code loading
-- column runtime_ns (ns): calls of a device's runtime or driver
-- column untraced_ns (ns): the thread's innermost open slice was a range that the user annotated, or no
--     slice was open: Python or native code that the profiler did not record (with_stack=True records Python)
-- doubts: no_operators, begin_end_events
-- An operator computes if it is not a metadata operator and its own time is at least the time of the
-- computing operators that it calls. The own time of a small operator includes its dispatch: traces do not
-- separate them.
WITH operator AS MATERIALIZED (
    SELECT h.trace_id, h.event_id, h.pid, h.tid, h.parent_id, h.self_ns, o.start_ns, o.end_ns, o.dur_ns,
           is_metadata_operator(o.name) AS is_view, is_calling_operator(o.name) AS is_frame
    FROM host_slice AS h JOIN cpu_ops AS o USING (trace_id, event_id)
    WHERE h.trace_id = coalesce(getvariable('trace'), h.trace_id)
),
called AS (
    SELECT trace_id, parent_id AS event_id, sum(dur_ns) AS called_ns FROM operator WHERE NOT is_view
    GROUP BY ALL
),
thread AS (
    SELECT trace_id, arg_max(pid, ns) AS pid, arg_max(tid, ns) AS tid, min(start_ns) AS start_ns,
           max(end_ns) AS end_ns
    FROM (SELECT trace_id, pid, tid, sum(self_ns) AS ns, min(start_ns) AS start_ns, max(end_ns) AS end_ns
        FROM operator GROUP BY ALL) GROUP BY ALL
),
role AS (
    SELECT trace_id, event_id, o.start_ns, CASE WHEN is_view THEN 'view' WHEN is_frame THEN 'dispatch'
               WHEN self_ns >= coalesce(called_ns, 0) THEN 'compute' ELSE 'dispatch' END AS role
    FROM operator AS o JOIN thread USING (trace_id, pid, tid) LEFT JOIN called USING (trace_id, event_id)
    UNION ALL
    -- Inductor's kernels have no slice of their own on a CPU: they run inside their graph's annotation.
    SELECT trace_id, event_id, NULL, 'compute' FROM annotations
    WHERE side = 'host' AND name LIKE '## Call CompiledFxGraph%'
),
step AS (SELECT trace_id, name, start_ns, end_ns FROM steps),
win AS (
    SELECT trace_id, 'host_active' AS kind, 'profiler steps' AS name, min(start_ns) AS start_ns,
           max(end_ns) AS end_ns FROM step
    GROUP BY ALL
    UNION ALL
    SELECT trace_id, 'host_active', 'first operator to last', start_ns, end_ns FROM thread
    WHERE trace_id NOT IN (SELECT trace_id FROM step)
    UNION ALL
    SELECT trace_id, 'step', name, start_ns, end_ns FROM step
    UNION ALL
    SELECT trace_id, 'trace', 'whole trace', start_ns, end_ns FROM trace_span
),
numbered AS MATERIALIZED (SELECT *, row_number() OVER () AS number FROM win),
segment AS (
    SELECT trace_id, s.start_ns, s.end_ns,
           CASE WHEN activity IN ('dispatch', 'untraced') THEN coalesce(role, activity)
                WHEN activity IN ('launch', 'sync', 'copy', 'allocation') THEN 'runtime'
                ELSE activity END AS role
    FROM host_segment AS s JOIN thread USING (trace_id, pid, tid) LEFT JOIN role USING (trace_id, event_id)
),
summed AS (
    SELECT number, role, sum(least(s.end_ns, w.end_ns) - greatest(s.start_ns, w.start_ns)) AS ns
    FROM numbered AS w JOIN segment AS s ON w.trace_id = s.trace_id AND s.start_ns < w.end_ns
        AND s.end_ns > w.start_ns
    GROUP BY number, role
),
begun AS (
    SELECT number, count(*) AS operators
    FROM numbered AS w JOIN role AS r ON w.trace_id = r.trace_id AND r.start_ns >= w.start_ns
        AND r.start_ns < w.end_ns GROUP BY number
),
launched AS (SELECT trace_id, count(*) AS launches FROM launches GROUP BY trace_id)
SELECT
    trace_id, pid, tid, kind, name, w.start_ns, w.end_ns, w.end_ns - w.start_ns AS span_ns,
    coalesce(any_value(operators), 0) AS operators,
    coalesce(any_value(launches), 0) AS launches,
    sum_where(ns, role = 'compute') AS compute_ns,
    sum_where(ns, role = 'dispatch') AS dispatch_ns,
    sum_where(ns, role = 'view') AS view_ns,
    sum_where(ns, role = 'python') AS python_ns,
    sum_where(ns, role = 'input') AS input_ns,
    sum_where(ns, role = 'compilation') AS compilation_ns,
    sum_where(ns, role = 'runtime') AS runtime_ns,
    sum_where(ns, role = 'untraced') AS untraced_ns
FROM numbered AS w JOIN summed USING (number) JOIN thread USING (trace_id) LEFT JOIN begun USING (number)
LEFT JOIN launched USING (trace_id)
GROUP BY number, trace_id, pid, tid, kind, name, w.start_ns, w.end_ns
ORDER BY trace_id, kind, w.start_ns
