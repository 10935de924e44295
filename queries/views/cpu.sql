-- The host's work in a trace without GPU ops.

-- The thread on which operators take most time, from its first operator to the end of its last one. In a
-- trace without operators, that on which Python frames do; of a server's front end, its event loop's.
CREATE OR REPLACE VIEW cpu_threads AS
SELECT trace_id, arg_max(pid, ns) AS pid, arg_max(tid, ns) AS tid, arg_max(start_ns, ns) AS start_ns,
       arg_max(end_ns, ns) AS end_ns, any_value(what) AS what
FROM (
    SELECT trace_id, o.pid, o.tid, sum(self_ns) AS ns, min(o.start_ns) AS start_ns, max(o.end_ns) AS end_ns,
           'operator' AS what
    FROM thread_slice AS h JOIN cpu_ops AS o USING (trace_id, event_id)
    WHERE trace_id NOT IN (SELECT trace_id FROM front_end) GROUP BY ALL
    UNION ALL
    SELECT trace_id, s.pid, s.tid, sum(self_ns), min(s.start_ns), max(s.end_ns), 'Python frame'
    FROM thread_slice AS h JOIN slices AS s USING (trace_id, event_id)
    WHERE trace_id NOT IN (SELECT trace_id FROM cpu_ops UNION ALL SELECT trace_id FROM front_end)
        AND label_id IN (SELECT label_id FROM slice_label
            WHERE kind = 'python' AND activity = 'python' AND NOT has(traits, 'thread_wait'))
    GROUP BY ALL
    UNION ALL
    SELECT trace_id, s.pid, s.tid, sum(dur_ns), min(s.start_ns), max(s.end_ns), 'Python frame'
    FROM slices AS s SEMI JOIN front_end USING (trace_id, pid, tid) WHERE kind = 'python'
    GROUP BY ALL
) GROUP BY trace_id;

-- Its windows: host_active (the steps, else from its first to its last), each step, the whole trace.
CREATE OR REPLACE VIEW cpu_windows AS
SELECT t.trace_id, 'host_active' AS kind, CASE
           WHEN count(s.name) = 0 THEN format('first {} to last', any_value(what))
           WHEN min(s.event_id) < 0 THEN 'units of work' ELSE 'profiler steps' END AS name,
       coalesce(min(s.start_ns), any_value(t.start_ns)) AS start_ns,
       coalesce(max(s.end_ns), any_value(t.end_ns)) AS end_ns, NULL AS is_main
FROM cpu_threads AS t LEFT JOIN (FROM steps ANTI JOIN front_end USING (trace_id)) AS s USING (trace_id)
GROUP BY t.trace_id
UNION ALL
SELECT trace_id, 'step', name, start_ns, end_ns, is_main FROM steps ANTI JOIN front_end USING (trace_id)
UNION ALL
SELECT trace_id, 'trace', 'whole trace', start_ns, end_ns, NULL FROM trace_span;

-- The slices whose own time is a wait for other ranks: calls of collectives and of other workers on any
-- thread (`is_call`), and what they call in Python, such as Work.wait. A call of another worker (`peer` is
-- `remote`) lasts until the answer is there.
CREATE OR REPLACE VIEW peer_waits AS
WITH call AS (
    SELECT trace_id, event_id, start_ns, end_ns,
           CASE WHEN has(traits, 'remote_call') THEN 'remote' END AS peer
    FROM slices WHERE list_has_any(traits, ['collective_call', 'remote_call'])
)
SELECT *, TRUE AS is_call FROM call
UNION ALL
SELECT p.trace_id, p.event_id, p.start_ns, p.end_ns, peer, FALSE
FROM (FROM thread_slice ANTI JOIN call USING (trace_id, event_id)) AS h
JOIN call AS c ON h.trace_id = c.trace_id AND h.parent_id = c.event_id
JOIN python_frames AS p ON h.trace_id = p.trace_id AND h.event_id = p.event_id;

-- What each operator's own time is, in a trace without GPU ops: an operator computes if it is not a metadata
-- operator and its own time is at least the time of the computing operators that it calls.
-- `which` is a trace_id; NULL: all traces.
CREATE OR REPLACE MACRO cpu_roles(which) AS TABLE
WITH operator AS (
    SELECT trace_id, h.event_id, o.pid, o.tid, h.parent_id, h.self_ns, o.dur_ns,
           has(traits, 'metadata') AS is_view, has(traits, 'calling') AS is_frame,
           has(traits, 'allocating') AND self_ns > thresholds().slow_allocation_ns AS is_slow_allocation
    FROM thread_slice AS h JOIN cpu_ops AS o USING (trace_id, event_id)
    WHERE trace_id = coalesce(which, trace_id)
),
called AS (SELECT trace_id, parent_id AS event_id, sum(dur_ns) AS called_ns FROM operator WHERE NOT is_view
    GROUP BY ALL)
SELECT trace_id, event_id, pid, tid, self_ns, CASE WHEN is_slow_allocation THEN 'allocation'
           WHEN is_view THEN 'view' WHEN is_frame THEN 'dispatch'
           WHEN self_ns >= coalesce(called_ns, 0) THEN 'compute' ELSE 'dispatch' END AS role
FROM operator LEFT JOIN called USING (trace_id, event_id)
UNION ALL
-- Inductor's kernels have no slice of their own on a CPU: they run inside their graph's annotation.
SELECT trace_id, event_id, pid, tid, NULL, 'compute'
FROM annotations WHERE has(traits, 'compiled_graph') AND trace_id = coalesce(which, trace_id);

-- On the thread that runs most operators, what it does, stretch by stretch: a role of the query cpu_time, and
-- what limits a computation by the shapes of its operators (NULL: they do not tell), or `remote` in a wait
-- for another worker. The stretches cover the trace without gap or overlap.
-- The own time of a small operator includes its dispatch: traces do not separate them. So shapes tell what
-- limits an operator only where it got work done at a plausible rate.
-- `which` is a trace_id; NULL: all traces.
CREATE OR REPLACE MACRO cpu_stretches(which) AS TABLE
WITH thread AS (FROM cpu_threads WHERE trace_id = coalesce(which, trace_id)),
waiting AS MATERIALIZED (FROM peer_waits WHERE trace_id = coalesce(which, trace_id)),
collective AS (FROM waiting WHERE is_call),
role AS (
    SELECT trace_id, event_id,
           -- An operator of few numbers spends its time on dispatch; a quick one of unknown work does, too.
           CASE WHEN role = 'compute' AND coalesce(flops / thresholds().core_flop_per_ns
                   + (read_bytes + written_bytes) / thresholds().core_byte_per_ns, self_ns)
                   < thresholds().quick_operator_ns
               THEN 'dispatch' ELSE role END AS role,
           -- By arithmetic intensity, since peaks of CPUs are not known; far slower operators have neither.
           CASE WHEN flops >= thresholds().host_flop_per_byte * (read_bytes + written_bytes)
                   THEN CASE WHEN flops >= thresholds().host_work_per_ns * self_ns THEN 'math' END
               WHEN read_bytes + written_bytes >= thresholds().host_work_per_ns * self_ns
                   THEN 'memory-bandwidth' END AS limit_by
    FROM cpu_roles(which) SEMI JOIN thread USING (trace_id, pid, tid)
    LEFT JOIN operator_work USING (trace_id, event_id)
    UNION ALL
    SELECT trace_id, event_id, 'waiting', NULL
    FROM slices SEMI JOIN thread USING (trace_id, pid, tid)
    WHERE label_id IN (SELECT label_id FROM slice_label WHERE has(traits, 'thread_wait')
        UNION ALL SELECT label_id FROM server_label WHERE role = 'waiting')
),
segment AS (
    SELECT trace_id, s.start_ns, s.end_ns, limit_by, peer, CASE
        WHEN c.event_id IS NOT NULL AND activity IN ('dispatch', 'python', 'untraced') THEN 'communication'
        WHEN activity IN ('dispatch', 'python', 'untraced') THEN coalesce(role, activity)
        WHEN activity IN ('launch', 'sync', 'copy') THEN 'runtime' ELSE activity END AS role
    FROM host_segment AS s SEMI JOIN thread USING (trace_id, pid, tid)
    LEFT JOIN role USING (trace_id, event_id)
    LEFT JOIN (SELECT trace_id, event_id, peer FROM waiting) AS c USING (trace_id, event_id)
),
-- Time in which nothing was recorded on the thread, while other threads ran only collectives.
running AS (
    SELECT trace_id AS key, 'untraced' AS label, start_ns, end_ns FROM segment WHERE role = 'untraced'
    UNION ALL
    SELECT trace_id, coalesce(peer, 'collective'), start_ns, end_ns FROM collective
    UNION ALL
    SELECT trace_id, 'operator', start_ns, end_ns
    FROM cpu_ops ANTI JOIN collective USING (trace_id, event_id) SEMI JOIN collective USING (trace_id)
),
resolved_segment AS (
    SELECT trace_id, start_ns, end_ns, role,
           CASE role WHEN 'compute' THEN limit_by WHEN 'communication' THEN peer END AS limit_by
    FROM segment WHERE role <> 'untraced'
    UNION ALL
    SELECT key, start_ns, end_ns,
           CASE WHEN len(labels) = 1 OR list_contains(labels, 'operator') THEN 'untraced'
               ELSE 'communication' END,
           CASE WHEN NOT list_contains(labels, 'operator') AND list_contains(labels, 'remote')
                    THEN 'remote' END
    FROM interval_labels('running') WHERE list_contains(labels, 'untraced')
)
SELECT trace_id, pid, tid, d.start_ns, d.end_ns, role, limit_by
FROM resolved_segment AS d JOIN thread USING (trace_id);
