-- fact: Ops that an idle device started long after their launch, throughout a run, for no recorded reason.
-- into: recorder_finding
-- needs: gpu_timeline, windows
-- What the recorder itself did meanwhile explains some of them. Those at the start alone do not count.
WITH held AS (
    SELECT trace_id, device_id, start_ns, end_ns, op_id FROM gpu_timeline WHERE cause = 'held'
),
overhead AS (SELECT trace_id, start_ns, end_ns FROM slices WHERE kind = 'overhead')
SELECT h.trace_id, 'held_ops' AS code, 'info' AS severity, count(*) AS count,
       format('ops start up to {} after their launch, {} in all, although the device is idle: another '
           || 'process on it, its clock, or a wait that was not recorded',
           duration_text(max(h.end_ns - h.start_ns)),
           duration_text(sum(h.end_ns - h.start_ns)::BIGINT)) AS message,
       sum(h.end_ns - h.start_ns)::BIGINT AS time_ns, NULL AS event_id
FROM (FROM held JOIN main_device USING (trace_id, device_id)) AS h ASOF LEFT JOIN overhead AS o
  ON h.trace_id = o.trace_id AND h.end_ns > o.start_ns
JOIN windows AS w ON h.trace_id = w.trace_id AND h.device_id = w.device_id AND w.kind = 'gpu_active'
WHERE (o.end_ns > h.start_ns) IS NOT TRUE
GROUP BY h.trace_id
HAVING count(*) >= thresholds().held_least
    AND 2 * (max(h.end_ns) - min(h.start_ns)) >= any_value(w.end_ns - w.start_ns)
    AND sum(h.end_ns - h.start_ns) >= thresholds().held_gain * any_value(w.end_ns - w.start_ns)
