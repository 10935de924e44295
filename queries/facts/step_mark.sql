-- fact: A step that the profiler marks.
-- needs: slice_label, gpu_ops
-- when: has(traits, 'step')
-- Marks of the same name that overlap in time (nested, or on several threads) are one step: from the earliest
-- start to the latest end, with the event and thread of the mark that starts first, if it has a length.
-- If only devices have marks, the host is in a step from the first launch to the last of the ops in it.
CREATE TABLE _scratch.step_mark (
    trace_id INTEGER, event_id BIGINT, -- the mark that starts first
    step     BIGINT,  -- its number
    name VARCHAR, pid BIGINT, tid BIGINT, start_ns BIGINT, end_ns BIGINT, dur_ns BIGINT
);
WITH annotated AS (FROM annotations WHERE has(traits, 'step') AND dur_ns > 0),
host AS (SELECT trace_id, event_id, name, pid, tid, start_ns, end_ns FROM annotated WHERE side = 'host'),
alone AS (FROM annotated WHERE trace_id NOT IN (SELECT trace_id FROM host)),
device AS (
    SELECT a.trace_id, a.event_id, any_value(a.name) AS name,
           mode(g.pid ORDER BY g.pid) AS pid, mode(g.tid ORDER BY g.tid) AS tid,
           min(launch_start_ns) AS start_ns, max(launch_end_ns) AS end_ns
    -- A join would sort all ops of other traces.
    FROM (FROM gpu_ops WHERE trace_id IN (SELECT trace_id FROM alone)) AS g ASOF JOIN alone AS a
      ON g.trace_id = a.trace_id AND g.start_ns >= a.start_ns
    WHERE g.start_ns < a.end_ns AND launch_id IS NOT NULL GROUP BY a.trace_id, a.event_id
),
mark AS (
    SELECT *, {'start': start_ns, 'length': start_ns - end_ns, 'pid': pid, 'tid': tid, 'id': event_id}
               AS place
    FROM (FROM host UNION ALL FROM device) WHERE end_ns > start_ns
),
opening AS (
    SELECT *, (start_ns >= max(end_ns) OVER (PARTITION BY trace_id, name ORDER BY place
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) IS NOT FALSE AS opens
    FROM mark
),
numbered AS (
    SELECT *, sum(if(opens, 1, 0)) OVER (PARTITION BY trace_id, name
        ORDER BY place ROWS UNBOUNDED PRECEDING) AS number FROM opening
)
SELECT trace_id, arg_min(event_id, place) AS event_id, TRY_CAST(split_part(name, '#', 2) AS BIGINT) AS step,
       name, arg_min(pid, place) AS pid, arg_min(tid, place) AS tid, min(start_ns) AS start_ns,
       max(end_ns) AS end_ns, max(end_ns) - min(start_ns) AS dur_ns
FROM numbered GROUP BY trace_id, name, number
