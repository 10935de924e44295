-- question: Which inputs does the program load or preprocess itself, instead of worker processes?
-- since: 0.1
-- title: Load and preprocess in worker processes
-- titled: no loader: Preprocess in workers, or on the device
-- causes: input, python
-- applied_as: workers
-- when: list_has_any(traits, ['own_input', 'preprocesses'])
-- needs: As many free CPU cores as workers, and a dataset that can be sent to other processes.
-- caveat: Workers may load slower than the program did: each has one thread, and they share cores and disk.
-- before:
--     loader = DataLoader(dataset, batch_size=64)
-- after:
--     loader = DataLoader(
--         dataset, batch_size=64, num_workers=4, persistent_workers=True, pin_memory=True
--     )
--     # in a server: prepare the next request in a thread or process while the device works on this one
--     # images of Hugging Face, on the device: AutoImageProcessor.from_pretrained(name, use_fast=True)
-- risks: Each worker holds a copy of the dataset object and `prefetch_factor` batches in memory. Random
--     numbers need a seed for each worker. If processes are spawned, the script needs `if __name__ ==
--     "__main__":`. Workers collate, too. If collation is most of a fetch (aten::stack or aten::cat in it, or
--     default_collate), first read whole batches: batch_size=None with a BatchSampler as sampler, and a
--     dataset that takes a list of indices; then there is nothing to collate. Hugging Face's ChunkPipeline
--     allows a single worker: load and process in a DataLoader of your own, and call the model.
-- check: tracekit query after.json data_loading; tracekit diff before.json after.json
-- sources: https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
--     https://docs.pytorch.org/docs/stable/data.html#single-and-multi-process-data-loading
--     https://docs.pytorch.org/docs/stable/data.html#disable-automatic-batching
-- doubts: no_stacks
-- A data loader without workers loads and collates in the thread that asks for the batch:
-- https://github.com/pytorch/pytorch/blob/main/torch/utils/data/dataloader.py (_SingleProcessDataLoaderIter)
WITH input AS (
    SELECT trace_id, event_id, pid, tid, start_ns, end_ns, dur_ns FROM slices
    WHERE list_has_any(traits, ['own_input', 'preprocesses']) AND is_asked(trace_id)
    QUALIFY is_outermost((trace_id, pid, tid), start_ns, end_ns)
),
-- A worker process cannot easily use the device to load.
loading AS (
    FROM input AS f
    WHERE NOT EXISTS (FROM gpu_ops AS l WHERE l.trace_id = f.trace_id AND l.pid = f.pid
        AND l.tid = f.tid AND launch_start_ns BETWEEN f.start_ns AND f.end_ns)
),
timed AS (
    SELECT f.*, place,
           coalesce(lead(f.start_ns) OVER (PARTITION BY f.trace_id, f.pid, f.tid, place ORDER BY f.start_ns),
               CASE WHEN f.start_ns < s.end_ns THEN greatest(s.end_ns, f.end_ns) END) - f.end_ns AS rest_ns
    FROM loading AS f LEFT JOIN call_site USING (trace_id, event_id)
    ASOF LEFT JOIN steps AS s ON f.trace_id = s.trace_id AND f.start_ns >= s.start_ns
),
-- Between two fetches, the host works, and the device no less than on average.
needed AS (
    SELECT t.*, ceil(median(dur_ns) OVER here / nullif(greatest(
               median(rest_ns) OVER here, busy_ns / count(*) OVER here), 0))::BIGINT AS workers
    FROM timed AS t LEFT JOIN (
        SELECT trace_id, max(busy_ns) AS busy_ns FROM window_partition WHERE kind = 'gpu_active'
        GROUP BY ALL
    ) USING (trace_id)
    WINDOW here AS (PARTITION BY t.trace_id, place)
),
-- Most of the longest fetch is in these functions.
inner_frame AS (
    SELECT t.trace_id, t.place, arg_min(f.name, f.dur_ns) AS name
    FROM (FROM timed QUALIFY row_number() OVER (PARTITION BY trace_id, place ORDER BY dur_ns DESC) = 1) AS t
    JOIN slices AS f ON t.trace_id = f.trace_id AND t.pid = f.pid AND t.tid = f.tid
        AND f.start_ns >= t.start_ns AND f.end_ns <= t.end_ns AND 2 * f.dur_ns > t.dur_ns
    WHERE has(f.traits, 'source_line') AND NOT has(f.traits, 'library')
    GROUP BY ALL
)
SELECT n.trace_id, n.place,
       -- Without a loader or an iterator, nobody asks for the next input ahead.
       if(n.trace_id IN (SELECT trace_id FROM label JOIN slice_label USING (label_id)
               WHERE list_has_any(traits, ['own_input', 'iterates'])),
           workers || if(workers = 1, ' worker keeps up', ' workers keep up'), 'no loader asks for it ahead')
           || coalesce(', mostly in ' || nullif(i.name, n.place), '') AS detail,
       'host' AS target, event_id, pid, tid, start_ns, dur_ns,
       least(1, thresholds().ready_fetch_ns / nullif(dur_ns, 0)) AS factor
FROM needed AS n LEFT JOIN inner_frame AS i
  ON n.trace_id = i.trace_id AND n.place IS NOT DISTINCT FROM i.place
