-- question: What does each thread of a server do: answering, tokenizing, scheduling, or waiting?
-- since: 0.1
-- when: (SELECT count(*) > 0 FROM server_label)
-- columns pid, tid
-- column role (text): answering (HTTP and JSON), tokenizing, detokenizing, handling outputs, exchanging
--     (messages between processes), scheduling, executing (what the device computes), waiting (for other
--     threads or processes), or other: no frame around it has a role
-- column own_ns (ns): time in frames with this role, and in what they call that has none of its own
-- column share_of_thread (fraction of the thread's time): own_ns over the time in which frames are open
-- column stretches (count): times without a break in this role
-- column is_front_end (boolean): the thread works most in a process without GPU ops, which mostly tokenizes,
--     answers or exchanges messages
-- doubts: no_stacks
WITH stretch AS MATERIALIZED (FROM server_stretches(getvariable('trace'))),
joined AS (
    SELECT *, start_ns IS DISTINCT FROM lag(end_ns) OVER w OR role <> lag(role) OVER w AS begins
    FROM stretch WINDOW w AS (PARTITION BY thread ORDER BY start_ns)
)
SELECT trace_id, pid, tid, role, sum(end_ns - start_ns)::BIGINT AS own_ns,
       own_ns / sum(own_ns) OVER (PARTITION BY trace_id, pid, tid) AS share_of_thread,
       count(*) FILTER (begins) AS stretches, EXISTS (FROM front_end AS f
           WHERE f.trace_id = j.trace_id AND f.pid = j.pid AND f.tid = j.tid) AS is_front_end
FROM joined AS j GROUP BY trace_id, pid, tid, thread, role
ORDER BY trace_id, is_front_end DESC, sum(own_ns) OVER (PARTITION BY trace_id, pid, tid) DESC, pid, tid,
         own_ns DESC, role
