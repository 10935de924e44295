-- question: How much of the communication overlaps compute, and how much is exposed?
-- since: 0.1
-- params kind
-- columns device_id, kind, name, communication_ns
-- column compute_ns (ns): time during which any other kernel ran
-- column overlapped_ns (ns): time during which both ran
-- columns exposed_ns
-- column share_overlapped (fraction of communication_ns): overlapped_ns over communication_ns
-- doubts: no_gpu_ops, no_communication, absurd_duration
-- The partition of a window counts communication that no other kernel covers; the rest of it overlaps.
WITH communication AS (
    SELECT {'trace_id': trace_id, 'device_id': device_id} AS key, start_ns, end_ns
    FROM gpu_ops WHERE activity = 'communication' AND is_asked(trace_id)
),
asked AS MATERIALIZED (
    SELECT trace_id, device_id, kind, name, start_ns, end_ns, compute_ns, exposed_comm_ns,
           {'trace_id': trace_id, 'device_id': device_id} AS key, row_number() OVER () AS event_id
    FROM window_partition
    WHERE kind = coalesce(getvariable('kind'), kind) AND is_asked(trace_id)
        AND compute_ns + exposed_comm_ns > 0
)
SELECT trace_id, device_id, kind, name, covered_ns AS communication_ns, compute_ns,
       covered_ns - exposed_comm_ns AS overlapped_ns, exposed_comm_ns AS exposed_ns,
       overlapped_ns / nullif(communication_ns, 0) AS share_overlapped
FROM asked JOIN (FROM interval_covered('asked', 'communication')) USING (event_id)
WHERE asked.key IN (SELECT key FROM communication)
ORDER BY trace_id, device_id, kind, start_ns
