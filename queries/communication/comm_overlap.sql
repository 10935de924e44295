-- question: How much of the communication overlaps compute, and how much is exposed?
-- since: 0.1
-- params kind
-- columns device_id, kind, name, communication_ns
-- column compute_ns (ns): time during which any other kernel ran
-- column overlapped_ns (ns): time during which both ran
-- columns exposed_ns
-- column share_overlapped (fraction of communication_ns): overlapped_ns over communication_ns
-- doubts: no_gpu_ops, no_communication, absurd_duration
WITH running AS (
    SELECT {'trace_id': trace_id, 'device_id': device_id} AS key, activity AS label, start_ns, end_ns
    FROM gpu_ops SEMI JOIN (FROM gpu_ops WHERE activity = 'communication') USING (trace_id, device_id)
    WHERE activity <> 'copy' AND is_asked(trace_id)
),
cut AS (
    SELECT w.trace_id, w.device_id, w.kind, w.name, w.start_ns AS window_start_ns, labels,
           least(s.end_ns, w.end_ns) - greatest(s.start_ns, w.start_ns) AS ns
    FROM (FROM interval_labels('running')) AS s JOIN windows AS w
      ON s.key.trace_id = w.trace_id AND s.key.device_id = w.device_id AND s.start_ns < w.end_ns
          AND s.end_ns > w.start_ns
),
summed AS (
    SELECT trace_id, device_id, kind, name, window_start_ns,
           sum_where(ns, list_contains(labels, 'communication')) AS communication_ns,
           sum_where(ns, list_contains(labels, 'compute')) AS compute_ns,
           sum_where(ns, len(labels) = 2) AS overlapped_ns
    FROM cut WHERE kind = coalesce(getvariable('kind'), kind) GROUP BY ALL
)
SELECT trace_id, device_id, kind, name, communication_ns, compute_ns, overlapped_ns,
       communication_ns - overlapped_ns AS exposed_ns,
       overlapped_ns / nullif(communication_ns, 0) AS share_overlapped
FROM summed
ORDER BY trace_id, device_id, kind, window_start_ns
