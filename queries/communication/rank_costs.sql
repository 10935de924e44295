-- question: What does each rank's step consist of, and how late is each rank?
-- since: 0.1
-- of: several traces
-- columns trace_id, rank, steps
-- column span_ns (ns): length of the median step; without steps, of the GPU-active span
-- columns unit, units, unit_ns
-- column part (text): compute, communication, copy, device (idle, the host was not late), or the cause for
--     which the host was late
-- columns part_ns
-- column waited_ns (ns): time in collectives of the whole trace that waited for other ranks
-- column later_ns (ns): lateness in collectives where it came last: its arrival minus the second-to-last
--     rank's
-- doubts: no_gpu_ops, unlinked_gpu_ops, starts_before_launch, absurd_duration
-- As in stragglers, sends and receives do not count; without other ranks, waited_ns and later_ns are 0.
WITH figure AS (FROM run_figures),
part AS (
    SELECT trace_id, unnest([
        {'part': 'compute', 'ns': compute_ns}, {'part': 'communication', 'ns': exposed_comm_ns},
        {'part': 'copy', 'ns': exposed_memcpy_ns}, {'part': 'device', 'ns': idle_ns - host_late_ns}
    ], recursive := true)
    FROM figure
    UNION ALL
    SELECT trace_id, cause::VARCHAR, sum(ns)
    FROM window_timeline_parts AS p JOIN run_windows AS w USING (trace_id, device_id, kind, name)
    WHERE is_compared AND idle_class = 'host_late' AND p.window_start_ns = w.start_ns
        AND p.window_end_ns = w.end_ns
    GROUP BY trace_id, cause
),
met AS (FROM awaited_collectives WHERE direction IS NULL),
next_to_last AS (SELECT call_key, wait_ns FROM met WHERE place_by_length = 2),
waiting AS (
    SELECT trace_id, sum(m.wait_ns) AS waited_ns, sum_where(n.wait_ns, is_last) AS later_ns
    FROM met AS m LEFT JOIN next_to_last AS n USING (call_key) GROUP BY trace_id
)
SELECT trace_id, trace.rank, steps, span_ns, unit, units, unit_ns, part, ns::BIGINT AS part_ns,
       coalesce(waited_ns, 0)::BIGINT AS waited_ns, coalesce(later_ns, 0)::BIGINT AS later_ns
FROM part JOIN figure USING (trace_id) JOIN trace USING (trace_id) LEFT JOIN waiting USING (trace_id)
WHERE ns > 0
ORDER BY trace_id, part_ns DESC, part
