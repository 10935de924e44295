-- fact: A file into which the recordings of several processes were merged, whose correlations collide.
-- into: recorder_finding
-- needs: host_thread
-- of: gpu_ops
-- when: (SELECT min(pid) < max(pid) FROM event_row JOIN slice_label USING (label_id)
--     WHERE kind IN ('runtime', 'driver'))
-- Each process counts its launches from one, so the file does not show which process launched an op with a
-- shared number.
WITH shared AS (
    SELECT trace_id, correlation FROM runtime_calls
    WHERE trace_id IN (SELECT trace_id FROM host_thread GROUP BY trace_id HAVING min(pid) < max(pid))
    GROUP BY trace_id, correlation HAVING min(pid) < max(pid)
),
op AS (
    SELECT trace_id, count(*) AS ops, count(s.correlation) AS ambiguous
    FROM gpu_ops LEFT JOIN shared AS s USING (trace_id, correlation)
    GROUP BY trace_id HAVING ambiguous >= greatest(thresholds().few_launches, thresholds().unseen_share * ops)
),
process AS (
    SELECT trace_id, pid, coalesce(any_value(raw->>'pid') FILTER (pid < 0), 'process ' || pid) AS name
    FROM event_row SEMI JOIN op USING (trace_id) JOIN slice_label USING (label_id)
    WHERE kind IN ('runtime', 'driver') GROUP BY trace_id, pid
)
SELECT trace_id, 'merged_ranks' AS code, 'error' AS severity, any_value(ambiguous) AS count,
       format('the recordings of {} processes are merged into this file ({} to {}), and their correlation '
           || 'ids collide: the launches of {:,} of {:,} GPU ops cannot be told apart', count(*), min(name),
           max(name), any_value(ambiguous), any_value(ops)) AS message,
       NULL::BIGINT AS time_ns, NULL AS event_id
FROM op JOIN process USING (trace_id) GROUP BY trace_id
