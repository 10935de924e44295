-- question: Which small collectives of one kind follow each other, so that one could do for all?
-- since: 0.1
-- title: Coalesce small collectives into one
-- causes: communication, launch, dispatch
-- frameworks: PyTorch
-- when: class = 'communication'; (SELECT count(*) >= thresholds().fewest_batched FROM collective
--     WHERE message_bytes <= thresholds().small_message_bytes
--         OR message_bytes IS NULL AND dur_ns <= thresholds().small_message_ns)
-- needs: Nothing between them needs the result of the first; every rank changes the same way.
-- caveat: Packing the tensors into one buffer takes a copy, which is not counted; nor is the host's work
--     between them. Without recorded sizes, collectives of at most 20 us count as small.
-- blind: no_runtime_calls
-- before:
--     for metric in metrics:
--         dist.all_reduce(metric)
-- after:
--     packed = torch.stack(metrics)
--     dist.all_reduce(packed)                   # one collective of all their bytes
--     metrics = packed.unbind()
--
--     # Gradients: DistributedDataParallel reduces them in buckets (bucket_cap_mb). A model that is wrapped
--     # in it and then compiled keeps them (torch._dynamo.config.optimize_ddp).
-- risks: All ranks must issue the same collectives in the same order; a rank that still sends them one by one
--     hangs the job.
-- check: tracekit query after.json collective_stats; tracekit diff before.json after.json
-- sources: https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
--     https://docs.pytorch.org/docs/stable/notes/ddp.html
--     https://docs.pytorch.org/docs/stable/torch.compiler_faq.html
--     https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/usage/groups.html
-- doubts: no_gpu_ops, no_runtime_calls, no_communication, no_stacks, unlinked_gpu_ops
-- Time of a message is latency plus bytes over bandwidth. Of large ones in a row, only the calls go.
WITH timed AS MATERIALIZED (
    SELECT trace_id, event_id, pid, tid, device_id, stream, type, message_bytes, start_ns, dur_ns,
           dur_ns - coalesce(wait_ns, 0) AS quick_ns,
           {'type': type, 'group': group_name, 'ranks': group_ranks, 'size': group_size, 'dtype': dtype}
           AS class
    FROM collective WHERE is_asked(trace_id)
),
-- Collectives of one class that a thread launches one after the other are a run. Only copies of tensors, and
-- averages in place, may stand between them.
launched AS (
    SELECT l.trace_id, l.event_id, launch_id, l.pid, l.tid, launch_start_ns, launch_end_ns,
           row_number() OVER (PARTITION BY l.trace_id, l.pid, l.tid
               ORDER BY launch_start_ns, l.event_id) AS number
    FROM gpu_ops AS l LEFT JOIN thread_slice AS h ON l.trace_id = h.trace_id AND l.launch_id = h.event_id
    LEFT JOIN slice_label AS o ON op_label = o.label_id
    WHERE (l.trace_id, l.pid, l.tid) IN (SELECT (trace_id, pid, tid) FROM timed)
        AND (l.kind <> 'kernel' OR has(traits, 'moves_or_fills') OR o.name IN ('aten::div_', 'aten::mul_'))
            IS NOT TRUE
),
run_of AS (
    SELECT t.* REPLACE (launch_id AS event_id), launch_id, t.event_id AS op_id, launch_start_ns,
           launch_end_ns, message_bytes <= thresholds().small_message_bytes
               OR message_bytes IS NULL AND dur_ns <= thresholds().small_message_ns AS is_small,
           l.number - row_number() OVER (PARTITION BY t.trace_id, t.pid, t.tid, class, t.stream
               ORDER BY launch_start_ns, t.event_id) AS run
    FROM timed AS t JOIN launched AS l ON t.trace_id = l.trace_id AND t.event_id = l.event_id
    WHERE type <> 'other'
),
run_member AS (
    SELECT *, row_number() OVER (whole ORDER BY launch_start_ns, op_id) AS number,
           -- Those of unknown size fill buckets of the time that one takes over the slowest link.
           CASE WHEN message_bytes IS NULL THEN sum(quick_ns) OVER (whole ORDER BY launch_start_ns, op_id)
               // (2e9 * thresholds().bucket_bytes / thresholds().host_link_bytes_per_s)::BIGINT END AS bucket
    FROM run_of
    WINDOW whole AS (PARTITION BY trace_id, pid, tid, class, stream, run)
    QUALIFY count_if(is_small) OVER whole >= thresholds().fewest_batched
),
at_place AS MATERIALIZED (
    SELECT *, bucket IS NOT NULL AND bucket = lag(bucket) OVER (
        PARTITION BY trace_id, pid, tid, class, stream, run ORDER BY number) AS is_bucketed
    FROM run_member LEFT JOIN call_site USING (trace_id, event_id)
),
rate AS (
    SELECT trace_id, class, max(message_bytes / dur_ns) AS bytes_per_ns FROM timed
    WHERE message_bytes > thresholds().small_message_bytes AND dur_ns > 0 GROUP BY trace_id, class
),
calling AS (
    SELECT trace_id, event_id, pid, tid, name, start_ns, end_ns FROM slices
    WHERE kind = 'cpu_op' AND has(traits, 'collective_call') AND is_asked(trace_id)
    QUALIFY is_outermost((trace_id, pid, tid), start_ns, end_ns)
),
small AS (
    SELECT s.*, min(s.quick_ns) OVER (PARTITION BY s.trace_id, s.class) AS own_ns,
           message_bytes / bytes_per_ns AS wire_ns,
           type || coalesce(', ' || max(message_bytes) FILTER (is_small) OVER (PARTITION BY s.trace_id, place)
               || ' bytes at most', ' of unknown size') AS detail,
           CASE WHEN launch_start_ns < o.end_ns AND count(*) OVER (PARTITION BY s.trace_id, o.event_id) = 1
               THEN o END AS around
    FROM at_place AS s LEFT JOIN rate AS r ON s.trace_id = r.trace_id AND s.class = r.class
    ASOF LEFT JOIN calling AS o
      ON s.trace_id = o.trace_id AND s.pid = o.pid AND s.tid = o.tid AND s.launch_start_ns >= o.start_ns
),
spare AS (FROM small WHERE (is_small AND number > 1) OR is_bucketed)
SELECT trace_id, place, detail, 'host' AS target, coalesce(around.event_id, launch_id) AS event_id, pid, tid,
       coalesce(around.start_ns, launch_start_ns) AS start_ns,
       coalesce(around.end_ns, launch_end_ns) - coalesce(around.start_ns, launch_start_ns) AS dur_ns,
       0 AS factor
FROM spare
UNION ALL
-- Its latency goes. Its wait for other ranks stays, and so do its bytes, at the largest one's rate.
SELECT trace_id, place, detail, 'op', op_id, pid, tid, start_ns, dur_ns,
       least(1, (dur_ns - own_ns + coalesce(wire_ns, 0)) / dur_ns)
FROM spare WHERE dur_ns > 0 AND is_small
