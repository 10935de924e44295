-- fact: A step that the profiler marks on the host.
-- needs: slice_label
-- when: has(traits, 'step')
-- Marks of the same name that overlap in time (nested, or on several threads) are one step: from the earliest
-- start to the latest end, with the event and thread of the mark that starts first, if it has a length.
CREATE TABLE _scratch.step_mark (
    trace_id INTEGER, event_id BIGINT, -- the mark that starts first
    step     BIGINT,  -- its number
    name VARCHAR, pid BIGINT, tid BIGINT, start_ns BIGINT, end_ns BIGINT, dur_ns BIGINT
);
WITH mark AS (
    SELECT trace_id, event_id, name, pid, tid, start_ns, end_ns,
           {'start': start_ns, 'length': -dur_ns, 'pid': pid, 'tid': tid, 'id': event_id} AS place
    FROM annotations WHERE side = 'host' AND has(traits, 'step') AND dur_ns > 0
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
