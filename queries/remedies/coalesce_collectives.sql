-- question: Which small collectives of one kind follow each other, so that one could do for all?
-- title: Coalesce small collectives into one
-- causes: communication, launch, dispatch
-- when: class = 'communication'
-- effort: low
-- needs: Nothing between them needs the result of the first; every rank changes the same way.
-- caveat: Packing the tensors into one buffer takes a copy, which is not counted.
-- blind: no_runtime_calls
-- before:
--     for metric in metrics:
--         dist.all_reduce(metric)
-- after:
--     packed = torch.stack(metrics)
--     dist.all_reduce(packed)                   # one collective of all their bytes
--     metrics = packed.unbind()
-- risks: All ranks must issue the same collectives in the same order; a rank that still sends them one by one
--     hangs the job.
-- check: tracekit query collective_stats after.json; tracekit diff before.json after.json
-- sources: https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
--     https://docs.pytorch.org/docs/stable/notes/ddp.html
--     https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/usage/groups.html
-- params trace
-- columns trace_id, place
-- column detail (text): the type, and the largest message of the place
-- column target (text): host: the operator of a collective; op: its kernel
-- columns event_id, pid, tid, start_ns, dur_ns
-- column factor (fraction of the time taken): what is left of it; of each run the first collective stays
-- doubts: no_gpu_ops, no_runtime_calls, no_communication, no_stacks, unlinked_gpu_ops
-- Time of a message is latency plus bytes over bandwidth.
WITH timed AS MATERIALIZED (
    SELECT trace_id, event_id, pid, tid, device_id, stream, type, message_bytes, dur_ns, wait_ns,
           {'type': type, 'group': group_name, 'ranks': group_ranks, 'size': group_size, 'dtype': dtype}
           AS class
    FROM collective WHERE trace_id = coalesce(getvariable('trace'), trace_id)
),
-- A launch of a thread is in a run with the one before if both are small collectives of one class.
placed AS (
    SELECT trace_id, launch_id, pid, tid, launch_start_ns, launch_end_ns, event_id,
           row_number() OVER (PARTITION BY trace_id, pid, tid ORDER BY launch_start_ns, event_id) AS turn
    FROM gpu_op_launch SEMI JOIN (SELECT DISTINCT trace_id, pid, tid FROM timed) USING (trace_id, pid, tid)
),
launch AS (
    SELECT l.*, t.class, t.device_id, t.stream, message_bytes AS bytes,
           dur_ns - coalesce(wait_ns, 0) AS quick_ns,
           lag(turn) OVER in_order IS DISTINCT FROM turn - 1
           OR lag(t.class) OVER in_order IS DISTINCT FROM t.class
           OR lag(t.stream) OVER in_order IS DISTINCT FROM t.stream AS begins
    FROM placed AS l JOIN (
        FROM timed WHERE message_bytes <= thresholds().small_message_bytes AND type <> 'other'
    ) AS t USING (trace_id, event_id)
    WINDOW in_order AS (PARTITION BY l.trace_id, l.pid, l.tid ORDER BY turn)
),
numbered AS (
    SELECT *, sum(CASE WHEN begins THEN 1 ELSE 0 END) OVER (PARTITION BY trace_id, pid, tid
        ORDER BY turn ROWS UNBOUNDED PRECEDING) AS run
    FROM launch
),
in_run AS (
    SELECT trace_id, pid, tid, run FROM numbered GROUP BY ALL HAVING count(*) >= thresholds().fewest_batched
),
kept AS MATERIALIZED (FROM numbered SEMI JOIN in_run USING (trace_id, pid, tid, run)),
least AS (SELECT trace_id, class, min(quick_ns) AS least_ns FROM kept GROUP BY ALL),
small AS MATERIALIZED (
    SELECT k.*, least_ns,
           row_number() OVER (PARTITION BY k.trace_id, pid, tid, run ORDER BY launch_start_ns) AS number
    FROM kept AS k JOIN least AS l ON k.trace_id = l.trace_id AND k.class = l.class
),
rate AS (
    SELECT trace_id, class, max(message_bytes / dur_ns) AS bytes_per_ns FROM timed
    WHERE message_bytes > thresholds().small_message_bytes AND dur_ns > 0 GROUP BY trace_id, class
),
call AS (SELECT trace_id, launch_id AS event_id FROM small),
site AS (FROM places_of('call')),
calling AS (
    SELECT trace_id, event_id, pid, tid, name, start_ns, end_ns FROM slices
    WHERE kind = 'cpu_op' AND has(traits, 'collective_call') AND trace_id IN (SELECT trace_id FROM small)
),
operator AS (FROM outermost('calling')),
spare AS MATERIALIZED (
    SELECT s.*, place, least(s.quick_ns, least_ns) AS own_ns, bytes / bytes_per_ns AS wire_ns,
           s.class.type || ', ' || max(bytes) OVER (PARTITION BY s.trace_id, place) || ' bytes at most'
               AS detail,
           CASE WHEN launch_start_ns < o.end_ns AND count(*) OVER (PARTITION BY s.trace_id, o.event_id) = 1
               THEN o END AS around
    FROM small AS s JOIN site AS p ON s.trace_id = p.trace_id AND s.launch_id = p.event_id
    LEFT JOIN rate AS r ON s.trace_id = r.trace_id AND s.class = r.class
    ASOF LEFT JOIN operator AS o
      ON s.trace_id = o.trace_id AND s.pid = o.pid AND s.tid = o.tid AND s.launch_start_ns >= o.start_ns
)
SELECT trace_id, place, detail, 'host' AS target, coalesce(around.event_id, launch_id) AS event_id, pid, tid,
       coalesce(around.start_ns, launch_start_ns) AS start_ns,
       coalesce(around.end_ns, launch_end_ns) - coalesce(around.start_ns, launch_start_ns) AS dur_ns,
       0 AS factor
FROM spare WHERE number > 1
UNION ALL
-- Its latency goes. What it waits for other ranks stays, and so do its bytes, as fast as the largest go.
SELECT s.trace_id, place, detail, 'op', s.event_id, pid, tid, g.start_ns, g.dur_ns,
       least(1, (g.dur_ns - own_ns + coalesce(wire_ns, 0)) / g.dur_ns)
FROM spare AS s JOIN gpu_ops AS g ON s.trace_id = g.trace_id AND s.event_id = g.event_id
WHERE number > 1 AND g.dur_ns > 0
ORDER BY trace_id, place, start_ns, target
