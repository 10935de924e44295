-- question: Which fetches from worker processes find no batch loaded?
-- since: 0.1
-- title: Give the loader more workers, or prefetch
-- causes: input
-- when: has(traits, 'prefetched_input')
-- needs: Free CPU cores, and storage that can deliver faster.
-- caveat: An upper bound: it holds if the workers keep up. The first batch after they start is never ready.
-- before:
--     loader = DataLoader(dataset, batch_size=64, num_workers=2)
-- after:
--     loader = DataLoader(
--         dataset, batch_size=64, num_workers=8, prefetch_factor=4, persistent_workers=True
--     )
-- risks: If most fetches wait, more workers help; if a few do, a larger prefetch_factor evens them out; if
--     those at an epoch's start do, persistent_workers keeps the processes. Each worker holds prefetch_factor
--     batches in memory. With more workers than cores, or a slow disk, nothing is gained: make a sample
--     cheaper to load, or collate less (batch_size=None, with a dataset that reads whole batches). The trace
--     does not show the workers.
-- check: tracekit query after.json data_loading; tracekit diff before.json after.json
-- sources: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader
--     https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
-- doubts: no_stacks
WITH fetched AS (
    SELECT trace_id, event_id, pid, tid, start_ns, dur_ns FROM slices
    WHERE has(traits, 'prefetched_input') AND is_asked(trace_id)
),
counted AS (
    SELECT trace_id, event_id, place, pid, tid, start_ns, dur_ns,
           dur_ns > thresholds().prefetched_ns AS is_late,
           count_if(is_late) OVER here AS late, count(*) OVER here AS fetches
    FROM fetched LEFT JOIN call_site USING (trace_id, event_id)
    WINDOW here AS (PARTITION BY trace_id, place)
)
SELECT trace_id, place, format('{} of {} fetches found no batch loaded', late, fetches) AS detail,
       'wait' AS target, event_id, pid, tid, start_ns, dur_ns, 0 AS factor
FROM counted WHERE is_late
