-- question: Which calls allocate or free device memory in the loop, past the caching allocator?
-- since: 0.1
-- title: Let the caching allocator keep its memory
-- titled: memory ran out: Use a smaller batch, or expandable_segments
-- causes: allocation
-- frameworks: PyTorch
-- when: has(traits, 'device_memory')
-- claims: around
-- needs: Memory for the loop's peak, or a smaller batch.
-- blind: no_runtime_calls
-- before:
--     for batch in loader:
--         train_step(batch)
--         torch.cuda.empty_cache()      # gives all memory back, and the next step asks for it again
-- after:
--     # If sizes change from step to step: before the first allocation
--     os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
--     for batch in loader:
--         train_step(batch)
-- risks: Without empty_cache(), other programs on the device cannot use the memory that this one has cached.
--     If blocks are freed in operators, memory is short or fragmented, because sizes change from step to
--     step; expandable segments, padding to a few sizes, or a smaller batch help.
-- check: tracekit query after.json call_sites --param kind=allocation; tracekit diff before.json after.json
-- sources: https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management
--     https://docs.pytorch.org/docs/stable/generated/torch.cuda.memory.empty_cache.html
-- doubts: no_runtime_calls, no_stacks
-- In the loop: memory is freed in most quarters of the launches, and not next to a graph's capture; or blocks
-- are freed after the start and allocated again, as the allocator does when memory is short. If ops were
-- launched before the recording, the start was before it, too.
-- Where none is freed, the cache grows only until it holds what the loop needs. Early calls that take far
-- longer than usual start the device, if later ones do not take as long. A call that frees outside all
-- operators empties the cache.
WITH named AS (
    SELECT trace_id, event_id, name, pid, tid, start_ns, end_ns, dur_ns, call <> 'allocate' AS frees,
           dur_ns >= thresholds().one_off_ratio * median(dur_ns) OVER (PARTITION BY trace_id, name) AS is_far
    FROM runtime_calls WHERE has(traits, 'device_memory') AND is_asked(trace_id)
),
launched AS (
    SELECT trace_id, pid, tid, launch_start_ns AS at_ns,
           ntile(4) OVER (PARTITION BY trace_id, pid, tid ORDER BY launch_start_ns) AS quarter
    FROM gpu_ops SEMI JOIN named USING (trace_id, pid, tid)
),
early AS (
    SELECT trace_id, pid, tid, quantile_disc(at_ns, thresholds().one_off_early_share) AS until_ns
    FROM launched GROUP BY ALL
),
uncaptured AS (
    FROM named WHERE NOT is_capturing(trace_id, pid, start_ns, thresholds().after_capture_ns)
),
at_place AS (
    SELECT *, max(start_ns) FILTER (is_far) OVER (PARTITION BY trace_id, name) AS last_far_ns
    FROM uncaptured LEFT JOIN call_site USING (trace_id, event_id)
),
quartered AS (
    SELECT n.trace_id, count(DISTINCT quarter) AS quarters
    FROM uncaptured AS n ASOF JOIN launched AS l
      ON n.trace_id = l.trace_id AND n.pid = l.pid AND n.tid = l.tid AND n.start_ns < l.at_ns
    WHERE frees
    GROUP BY n.trace_id
),
running AS (
    SELECT trace_id FROM gpu_ops WHERE is_asked(trace_id) GROUP BY trace_id
    HAVING count(*) FILTER (launch_id IS NULL) >= thresholds().fewest_alike
),
short AS (
    SELECT trace_id, count(*) AS frees
    FROM (SELECT *, bool_or(NOT frees) OVER (PARTITION BY trace_id, pid, tid ORDER BY start_ns
              ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS allocates_later FROM uncaptured)
    JOIN early USING (trace_id, pid, tid)
    WHERE frees AND allocates_later AND (start_ns > until_ns OR trace_id IN (FROM running))
    GROUP BY trace_id
),
freed AS (
    SELECT trace_id FROM quartered WHERE quarters >= thresholds().recurring_quarters
    UNION
    SELECT trace_id FROM short WHERE frees >= thresholds().fewest_alike
),
call AS (
    SELECT n.* FROM at_place AS n SEMI JOIN freed USING (trace_id) JOIN early USING (trace_id, pid, tid)
    WHERE NOT is_far OR last_far_ns > until_ns
),
emptied AS (
    SELECT trace_id, nullif(arg_max(coalesce(place, ''), ns), '') AS place
    FROM (SELECT trace_id, place, sum(dur_ns) AS ns FROM call WHERE frees AND cpu_op IS NULL GROUP BY ALL)
    GROUP BY trace_id
)
SELECT c.trace_id, e.place,
       CASE WHEN c.trace_id IN (SELECT trace_id FROM setting WHERE name = 'allocator')
               THEN 'nothing is cached: see PYTORCH_NO_CUDA_MEMORY_CACHING'
           WHEN c.trace_id NOT IN (SELECT trace_id FROM cpu_ops) THEN 'blocks are freed and allocated again'
           WHEN e.trace_id IS NULL THEN 'memory ran out, blocks are freed to allocate others'
           ELSE 'the cache is emptied' END AS detail,
       'host' AS target, event_id, pid, tid, start_ns, dur_ns, 0 AS factor
FROM call AS c LEFT JOIN emptied AS e USING (trace_id)
