-- question: What is HTA's queue length on each stream, over time?
-- since: 0.1
-- columns stream, at_ns
-- column changes (count): number of launches and op starts at this instant
-- column queue_length (count): launches minus starts so far, including all at this instant
-- HTA's function is get_queue_length_time_series: one row per change. HTA's sort decides the order of changes
-- at one instant, so only the length after all of them is certain; mean, deviation and quartiles of the rows
-- (get_queue_length_summary) are not. It recognizes launches by twelve names.
WITH held AS (FROM hta_events),
launch AS (
    SELECT trace_id, correlation, start_ns FROM held
    -- HTA treats the first event of a file as missing.
    WHERE linked_id > 0 AND is_hta_queue_launch(name)
),
op AS (
    SELECT trace_id, correlation, stream, start_ns, copies FROM held
    SEMI JOIN launch USING (trace_id, correlation)
    WHERE stream <> -1
),
change AS (
    SELECT l.trace_id, stream, l.start_ns AS at_ns, copies AS step FROM launch AS l
    JOIN op USING (trace_id, correlation)
    UNION ALL
    SELECT trace_id, stream, start_ns, -copies FROM op
)
SELECT trace_id, stream, at_ns, sum(abs(step))::BIGINT AS changes,
       (sum(sum(step)) OVER (PARTITION BY trace_id, stream ORDER BY at_ns))::BIGINT AS queue_length
FROM change GROUP BY trace_id, stream, at_ns
ORDER BY trace_id, stream, at_ns
