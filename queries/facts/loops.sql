-- fact: A loop of many short iterations, as of a benchmark, in a trace without steps. It is judged as a step.
-- needs: steps
-- Of several loops, it is the longest. One that only copies is none. As of steps, most GPU ops need a launch.
CREATE TABLE loops (
    trace_id INTEGER,
    event_id BIGINT, -- negative: a unit of work has no event
    name VARCHAR, pid BIGINT, tid BIGINT, start_ns BIGINT, end_ns BIGINT, dur_ns BIGINT,
    group_id   BIGINT, -- its iterations' group
    iterations BIGINT
);
WITH many AS (
    SELECT trace_id, -1 - min(unit_id) AS event_id, pid, arg_min(tid, u.start_ns) AS tid,
           min(u.start_ns) AS start_ns, max(u.end_ns) AS end_ns, group_id,
           max(complete_ns) - min(begin_ns) AS length_ns, count(*) AS iterations
    FROM unit AS u ANTI JOIN steps USING (trace_id)
    WHERE level = 1 AND kind = 'iteration' AND is_whole
      AND trace_id NOT IN (
          SELECT trace_id FROM gpu_ops GROUP BY trace_id HAVING 2 * count(launch_id) < count(*))
    GROUP BY trace_id, pid, group_id HAVING count(*) >= thresholds().unit_loop_least
)
SELECT trace_id, event_id, iterations || ' iterations', m.pid, m.tid, m.start_ns, m.end_ns,
       m.end_ns - m.start_ns, group_id, iterations
FROM many AS m SEMI JOIN gpu_ops AS g
  ON m.trace_id = g.trace_id AND g.kind = 'kernel' AND launch_start_ns >= m.start_ns
      AND launch_start_ns < m.end_ns
QUALIFY row_number() OVER (PARTITION BY m.trace_id ORDER BY length_ns DESC, m.start_ns) = 1
