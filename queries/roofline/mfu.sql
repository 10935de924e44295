-- question: What share of the device's peak does each step reach (MFU)?
-- since: 0.1
-- params kind
-- columns device_id, kind, name, span_ns, device
-- column flops (floating-point operations): operations of matrix products, convolutions and attention, by
--     shapes: in a step, those that the host calls there (or in graphs that it launches there); in another
--     window, those whose GPU ops begin there
-- columns tflop_per_s
-- column share_of_peak (fraction of the dense peak): flops' time at the peaks over span_ns; NULL: no peaks
-- column share_counted (fraction of kernel time): the share of the window's kernels, by time, whose
--     operator's FLOPs are known; the others add no FLOPs
-- column matrix_share (fraction of kernel time): the time of that work
-- column matrix_of_peak (fraction of the dense peak): flops' time at the peaks over the time of that work
-- column of_roofs (fraction of their time): the time that the operators of known work would take at the
--     nearer peak, of math or memory, over the time of their kernels
-- column captured_flops (floating-point operations): the part of flops from graph replays, by their capture
-- doubts: no_gpu_ops, no_shapes, unknown_device, unlinked_gpu_ops
-- Model FLOPs utilization: PaLM, https://arxiv.org/abs/2204.02311, appendix B. A trace shows all work that
-- was done, so recomputation counts; the paper calls that hardware FLOPs utilization.
WITH work AS MATERIALIZED (
    SELECT *, CASE known_from WHEN 'call' THEN 0 ELSE flops END AS captured_flops, start_ns AS host_ns
    FROM all_work WHERE is_asked(trace_id)
),
counted AS (SELECT DISTINCT trace_id, unnest(gpu_op_ids) AS event_id FROM work),
done AS (
    SELECT w.trace_id, w.device_id, first_ns AS at_ns, host_ns, flops * is_matrix::INTEGER AS flops,
           captured_flops * is_matrix::INTEGER AS captured_flops,
           flops * 1e9 / peak_of(p.flop_per_s, w.peak, is_matrix) AS math_ns,
           CASE WHEN is_matrix THEN math_ns ELSE 0 END AS peak_ns, busy_ns * is_matrix::INTEGER AS matrix_ns,
           busy_ns * is_kernels::INTEGER AS known_ns,
           least(known_ns, greatest(math_ns, (read_bytes + written_bytes) * 1e9 / p.memory_bytes_per_s))
               AS roof_ns,
           0 AS kernel_ns, 0 AS counted_ns
    FROM work AS w LEFT JOIN device_peaks AS p ON w.trace_id = p.trace_id AND w.device_id = p.device_id
    UNION ALL
    SELECT k.trace_id, k.device_id, k.start_ns, launch_start_ns, 0, 0, 0, 0, 0, 0, 0, dur_ns,
           CASE WHEN w.event_id IS NULL THEN 0 ELSE dur_ns END
    FROM gpu_ops AS k LEFT JOIN counted AS w ON k.trace_id = w.trace_id AND k.event_id = w.event_id
    WHERE k.kind = 'kernel' AND k.trace_id IN (SELECT trace_id FROM work)
),
measured AS (
    SELECT w.trace_id, w.device_id, w.kind, w.name, w.start_ns, w.end_ns, sum(flops) AS flops,
           sum(captured_flops) AS captured_flops, count(*) FILTER (peak_ns IS NULL) AS unknown,
           sum(COLUMNS('^(peak|matrix|known|roof|kernel|counted)_ns$'))
    FROM windows AS w JOIN done AS d ON w.trace_id = d.trace_id AND w.device_id = d.device_id
     AND CASE kind WHEN 'step' THEN d.host_ns ELSE d.at_ns END >= w.start_ns
     AND CASE kind WHEN 'step' THEN d.host_ns ELSE d.at_ns END < w.end_ns
    WHERE kind = coalesce(getvariable('kind'), kind)
    GROUP BY ALL
)
SELECT
    m.trace_id, m.device_id, kind, m.name, m.end_ns - m.start_ns AS span_ns, p.device, flops,
    flops / (m.end_ns - m.start_ns) / 1e3 AS tflop_per_s,
    CASE WHEN unknown = 0 THEN peak_ns / (m.end_ns - m.start_ns) END AS share_of_peak,
    counted_ns / nullif(kernel_ns, 0) AS share_counted,
    -- Its operators also include memory fills, which are not kernels.
    least(1, matrix_ns / nullif(kernel_ns, 0)) AS matrix_share,
    CASE WHEN unknown = 0 THEN peak_ns / nullif(matrix_ns, 0) END AS matrix_of_peak,
    roof_ns / nullif(known_ns, 0) AS of_roofs, captured_flops
FROM measured AS m LEFT JOIN device_peaks AS p ON m.trace_id = p.trace_id AND m.device_id = p.device_id
ORDER BY m.trace_id, m.device_id, kind, m.start_ns
