-- question: Which collectives of data-parallel training are exposed although compute could hide them?
-- since: 0.1
-- title: Overlap communication with compute
-- causes: communication
-- frameworks: PyTorch
-- when: class = 'communication'; has(traits, 'autograd_node') OR name SIMILAR TO
--     '.*(AccumulateGrad|torch\.distributed\.ddp\.reducer|FullyShardedDataParallel|FSDP::|fully_shard).*'
-- effort: medium
-- needs: Gradients that are ready bucket by bucket (DistributedDataParallel), or parameters that can be
--     gathered ahead of use (FSDP).
-- caveat: An upper bound: it assumes that all compute of the backward pass (FSDP: of the step) without other
--     work beside it can hide communication. Kernels that run beside collectives get slower.
-- blind: no_runtime_calls
-- before:
--     model = DistributedDataParallel(model, bucket_cap_mb=500)  # one bucket: reduced after backward
-- after:
--     model = DistributedDataParallel(model, bucket_cap_mb=25, gradient_as_bucket_view=True)
--     # FSDP: FullyShardedDataParallel(model, forward_prefetch=True,
--     #     backward_prefetch=BackwardPrefetch.BACKWARD_PRE)
-- risks: Smaller buckets pay more latency. Prefetched parameters take memory. Gradient accumulation should
--     skip the reduction between optimizer steps (no_sync) before anything else.
-- check: tracekit query before.json exposed_collectives; tracekit query after.json comm_overlap
-- sources: https://docs.pytorch.org/docs/stable/notes/ddp.html
--     https://arxiv.org/abs/2006.15704
--     https://arxiv.org/abs/2304.11277
-- column factor (fraction of the time taken): the part that its step's compute cannot hide
-- doubts: no_gpu_ops, no_runtime_calls, no_communication, unlinked_gpu_ops
-- Gradients are reduced in buckets while the backward pass goes on. The last bucket has nothing to hide
-- behind. Sharded parameters are gathered ahead of use (FSDP).
WITH reduction AS MATERIALIZED (
    SELECT t.trace_id, t.event_id, t.device_id, message_bytes, t.pid, t.tid, t.start_ns, t.dur_ns, exposed_ns,
           NOT is_sharded AS is_backward,
           coalesce(CASE WHEN launch_start_ns < s.end_ns THEN step END, -1) AS step,
           -- For a collective that could be the last one: a bucket of the usual size.
           (t.dur_ns - coalesce(wait_ns, 0))
               * least(1, coalesce(thresholds().bucket_bytes / message_bytes, 1)) AS last_ns,
           type || coalesce(', group ' || group_name, '') AS place
    FROM collective AS t
    JOIN framework_collectives(thresholds().fewest_batched) AS k USING (trace_id, event_id)
    ASOF LEFT JOIN steps AS s ON t.trace_id = s.trace_id AND t.launch_start_ns >= s.start_ns
    WHERE is_sharded OR (is_gradient AND type <> 'allgather')
),
thread AS (SELECT DISTINCT trace_id, pid, tid FROM reduction),
-- Compute without communication beside it; the backward pass has its own thread.
work AS MATERIALIZED (
    SELECT {'trace_id': g.trace_id, 'device_id': g.device_id} AS key, g.event_id, g.start_ns, g.end_ns,
           g.dur_ns, coalesce(CASE WHEN g.launch_start_ns < s.end_ns THEN step END, -1) AS step,
           (g.trace_id, g.pid, g.tid) IN (SELECT (trace_id, pid, tid) FROM thread) AS is_backward
    FROM (FROM gpu_ops SEMI JOIN thread USING (trace_id)) AS g
    ASOF LEFT JOIN steps AS s ON g.trace_id = s.trace_id AND g.launch_start_ns >= s.start_ns
    WHERE g.activity = 'compute' AND launch_id IS NOT NULL
),
exchange AS (
    SELECT {'trace_id': trace_id, 'device_id': device_id} AS key, start_ns, end_ns FROM gpu_ops
    WHERE activity = 'communication' AND trace_id IN (SELECT trace_id FROM thread)
),
hidden AS (FROM interval_covered('work', 'exchange')),
free AS (
    SELECT w.key.trace_id AS trace_id, w.key.device_id AS device_id, step,
           sum(dur_ns - covered_ns) AS ns, sum_where(dur_ns - covered_ns, is_backward) AS backward_ns
    FROM work AS w JOIN hidden AS h ON w.key = h.key AND w.event_id = h.event_id
    GROUP BY ALL
),
bound AS (
    SELECT c.trace_id, c.device_id, c.step, c.is_backward, sum(exposed_ns) AS exposed_ns,
           greatest(0, sum(exposed_ns) - any_value(CASE WHEN c.is_backward THEN f.backward_ns ELSE f.ns END))
               AS unhidden_ns,
           min(last_ns) AS last_ns
    FROM reduction AS c JOIN free AS f USING (trace_id, device_id, step)
    GROUP BY ALL
),
-- Nothing is gained where each is needed as soon as it can begin, or where nothing follows.
reason AS (
    SELECT c.trace_id, place, reason, late_by, sum(e.end_ns - e.start_ns) AS ns
    FROM reduction AS c JOIN exposed_stretches(thresholds().launch_floor_ns, thresholds().wait_ns,
            thresholds().clock_tick_ns, thresholds().hidden_share, thresholds().fewest_batched,
            thresholds().bucket_bytes) AS e
        USING (trace_id, event_id)
    WHERE reason NOT IN ('gaps in compute', 'launch unknown') GROUP BY ALL
),
main_reason AS (
    SELECT trace_id, place, bool_or(reason NOT IN ('needed at once', 'end of the unit')) AS can_change,
           arg_max(reason || CASE coalesce(late_by, reason) WHEN 'same stream' THEN ': use one of their own'
               WHEN 'late host' THEN ': launch what follows earlier'
               WHEN 'longer than compute' THEN ': send less'
               WHEN 'sharded parameters' THEN ': prefetch parameters'
               WHEN 'gradients in a row' THEN ': reduce during backward'
               WHEN 'large bucket' THEN ': use smaller buckets'
               WHEN 'after other compute' THEN ': issue them when ready'
               WHEN 'device full or waiting' THEN ': record waits'
               ELSE ': make the last bucket smaller' END, (ns, reason, late_by)) AS told
    FROM reason GROUP BY ALL
)
SELECT c.trace_id, place, coalesce(told || ' (', '') || 'collectives: ' || in_step(count(*) OVER same, steps)
       || coalesce(', of ' || format_bytes(max(message_bytes) OVER same) || ' at most', '')
       || if(told IS NULL, '', ')') AS detail,
       'op' AS target, event_id, pid, tid, start_ns, dur_ns,
       1 - c.exposed_ns / dur_ns * (1 - greatest(unhidden_ns, b.last_ns) / b.exposed_ns) AS factor
FROM reduction AS c JOIN bound AS b USING (trace_id, device_id, step, is_backward)
JOIN run_steps AS r ON c.trace_id = r.trace_id
LEFT JOIN main_reason AS m USING (trace_id, place)
WHERE c.exposed_ns > 0 AND greatest(unhidden_ns, b.last_ns) < b.exposed_ns AND coalesce(can_change, TRUE)
WINDOW same AS (PARTITION BY c.trace_id, place)
