-- question: Which fetches from worker processes find no batch loaded?
-- params trace
-- columns trace_id
-- column place (text): the Python line that asks for batches; NULL: stacks were not recorded
-- column detail (text): how many of the fetches there wait
-- column target (text): wait: for the workers
-- columns event_id, pid, tid, start_ns, dur_ns, factor
-- doubts: no_stacks
-- https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader (num_workers, prefetch_factor)
WITH fetched AS (
    SELECT trace_id, event_id, pid, tid, start_ns, dur_ns FROM slices
    WHERE has(traits, 'prefetched_input') AND trace_id = coalesce(getvariable('trace'), trace_id)
),
place AS (FROM places_of('fetched')),
counted AS (
    SELECT trace_id, event_id, place, pid, tid, start_ns, dur_ns,
           dur_ns > thresholds().prefetched_ns AS is_late,
           count(*) FILTER (is_late) OVER here AS late, count(*) OVER here AS fetches
    FROM fetched JOIN place USING (trace_id, event_id)
    WINDOW here AS (PARTITION BY trace_id, place)
)
SELECT trace_id, place,
       format('{} of {} fetches found no batch loaded', late, fetches) AS detail,
       'wait' AS target, event_id, pid, tid, start_ns, dur_ns, 0 AS factor
FROM counted
WHERE is_late
ORDER BY trace_id, place, start_ns
