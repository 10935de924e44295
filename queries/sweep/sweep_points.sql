-- question: How fast was each point of a sweep, against a baseline, and what did its trace show?
-- since: 0.1
-- param baseline (text, default first): the workload that speed-ups refer to
-- column trace_id (id): the trace; the latest one if the point was retried
-- column workload (text): the workload
-- column variant (text): the variant that ran; NULL: none ran
-- columns device
-- column batch (count): sequences per batch; NULL here and in the next three columns: the workload has no
--     such size
-- column seq (count): tokens per sequence
-- column dim (count): input and output features
-- column hidden (count): hidden features
-- columns dtype
-- column activation (text): activation of the MLPs
-- column reason (text): why the point could not run; NULL: it ran
-- column is_wrong (boolean): whether it gave a wrong answer and was not measured
-- column step_ns (ns): step time without the profiler: median over rounds
-- column spread (fraction of step_ns): interquartile range over rounds
-- column rounds (count): number of rounds, in which the variants of a shape take turns
-- column rows_per_s (rows per second): batch times seq over step_ns
-- column host_ns (ns): time to issue the step's work, unprofiled; NULL on a CPU, which also computes
-- column speedup (baseline's time over its own): median over rounds; NULL: the baseline did not run
-- column speedup_low (baseline's time over its own): first quartile over rounds
-- column speedup_high (baseline's time over its own): third quartile over rounds
-- column profiled_step_ns (ns): step time under the profiler
-- column dilation (profiled_step_ns over step_ns): how far the profiler slowed it
-- column operators (count): operators per step
-- column launches (count): calls per step that enqueued work; NULL here and below: no GPU
-- column kernels (count): kernels per step
-- column kernel_ns (ns): sum of kernel durations per step
-- column traffic_bytes (bytes): bytes that operators read and write per step, by their shapes
-- column traffic_bytes_per_s (bytes per second): traffic_bytes over step_ns
-- doubts: no_gpu_ops, no_shapes, unlinked_gpu_ops, profiler_dilation
WITH noted AS (
    SELECT trace_id, metadata->'tracekit' AS facts, metadata->'tracekit'->'sweep' AS sweep,
           metadata->'tracekit'->'parameters' AS sizes
    FROM trace WHERE is_asked(trace_id)
        AND json_type(metadata->'tracekit'->'sweep') = 'OBJECT'
),
point AS (
    SELECT
        trace_id, facts->>'workload' AS workload, facts->>'variant' AS variant, sweep->>'device' AS device,
        TRY_CAST(sizes->>'batch' AS BIGINT) AS batch, TRY_CAST(sizes->>'seq' AS BIGINT) AS seq,
        TRY_CAST(sizes->>'dim' AS BIGINT) AS dim,
        TRY_CAST(sizes->>'hidden' AS BIGINT) AS hidden, sizes->>'dtype' AS dtype,
        sizes->>'activation' AS activation,
        sweep->>'reason' AS reason, coalesce(lower(sweep->>'is_wrong') IN ('true', '1'), FALSE) AS is_wrong,
        sweep->>'baseline' AS first,
        coalesce((sizes->>'device') = 'cpu', FALSE) AS is_cpu,
        TRY_CAST(facts->>'profiled_step_ns' AS BIGINT) AS profiled_step_ns,
        TRY_CAST(
            sweep->'rounds' AS STRUCT(workload VARCHAR, step_ns BIGINT[], host_ns BIGINT[])[]
        ) AS rounds
    FROM noted
    QUALIFY row_number() OVER (
        PARTITION BY device, workload, batch, seq, dim, hidden, dtype, activation ORDER BY trace_id DESC
    ) = 1
),
-- The points timed in the same rounds, itself included.
timed AS (
    SELECT trace_id, r.workload AS workload, r.step_ns AS steps, r.host_ns AS hosts
    FROM (SELECT trace_id, unnest(rounds) AS r FROM point)
),
speed AS (
    SELECT trace_id, own.steps, own.hosts, percentile(own.steps, 50) AS step_ns,
           list_transform(list_zip(base.steps, own.steps), lambda x: x[1] / nullif(x[2], 0)) AS ratios
    FROM point JOIN timed AS own USING (trace_id, workload)
    LEFT JOIN timed AS base ON own.trace_id = base.trace_id
        AND base.workload = coalesce(getvariable('baseline'), first)
),
traffic AS (SELECT trace_id, sum(read_bytes + written_bytes)::BIGINT AS n FROM all_work GROUP BY trace_id),
operator AS (SELECT trace_id, count(*) AS n FROM cpu_ops GROUP BY trace_id),
figure AS (FROM run_figures SEMI JOIN main_device USING (trace_id))
SELECT
    trace_id, workload, variant, device, batch, seq, dim, hidden, dtype, activation, reason, is_wrong,
    step_ns,
    (percentile(s.steps, 75) - percentile(s.steps, 25)) / nullif(step_ns, 0) AS spread,
    len(s.steps) AS rounds, batch * seq * 1e9 / nullif(step_ns, 0) AS rows_per_s,
    CASE WHEN NOT is_cpu THEN percentile(s.hosts, 50) END AS host_ns,
    percentile(ratios, 50) AS speedup, percentile(ratios, 25) AS speedup_low,
    percentile(ratios, 75) AS speedup_high,
    profiled_step_ns, profiled_step_ns / nullif(step_ns, 0) AS dilation,
    operator.n / run_steps.steps AS operators,
    f.launches / run_steps.steps AS launches, f.kernels / run_steps.steps AS kernels,
    f.kernel_ns // run_steps.steps AS kernel_ns, traffic.n // run_steps.steps AS traffic_bytes,
    traffic_bytes * 1e9 / nullif(step_ns, 0) AS traffic_bytes_per_s
FROM point JOIN run_steps USING (trace_id) LEFT JOIN speed AS s USING (trace_id)
LEFT JOIN operator USING (trace_id)
LEFT JOIN figure AS f USING (trace_id) LEFT JOIN traffic USING (trace_id)
ORDER BY device, dtype, activation, batch, seq, dim, hidden, trace_id
