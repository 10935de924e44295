-- question: When does Python's garbage collector stop the program?
-- since: 0.1
-- title: Collect garbage when nothing waits
-- causes: python
-- when: kind = 'python' AND name IN ('Python GC', '<built-in function collect>')
-- needs: Few reference cycles, so that memory does not grow between collections.
-- caveat: An upper bound: rare collections take longer each time.
-- blind: no_stacks
-- before:
--     for batch in loader:
--         train_step(batch)
--         gc.collect()
-- after:
--     gc.collect()
--     gc.freeze()                       # what exists now is never looked at again
--     gc.disable()
--     for n, batch in enumerate(loader):
--         train_step(batch)
--         if n % 1000 == 999:
--             gc.collect()              # on all ranks in the same step
-- risks: Tensors in reference cycles keep their memory until the next collection. If ranks collect at
--     different times, all wait for each of them. Collections that Python starts itself are recorded only
--     with _ExperimentalConfig(record_python_gc_info=True).
-- check: tracekit query after.json python_time; tracekit diff before.json after.json
-- sources: https://docs.python.org/3/library/gc.html
--     https://github.com/pytorch/pytorch/pull/161209
-- doubts: no_stacks
-- A call of gc.collect() is a frame of the stack; `Python GC` is a collection that Python starts itself.
-- Collections around a graph's capture belong to it.
WITH collection AS (
    SELECT trace_id, event_id, pid, tid, name, start_ns, end_ns, dur_ns FROM slices
    WHERE kind = 'python' AND name IN ('Python GC', '<built-in function collect>') AND is_asked(trace_id)
        AND NOT is_capturing(trace_id, pid, start_ns, thresholds().after_capture_ns)
    QUALIFY is_outermost((trace_id, pid, tid), start_ns, end_ns)
),
called AS (
    SELECT * REPLACE (CASE WHEN name <> 'Python GC' THEN place END AS place)
    FROM collection LEFT JOIN call_site USING (trace_id, event_id)
)
SELECT trace_id, place,
       format('{} collections, the longest {:.1f} ms', count(*) OVER here, max(dur_ns) OVER here / 1e6)
           AS detail,
       'host' AS target, event_id, pid, tid, start_ns, dur_ns, 0 AS factor
FROM called
WINDOW here AS (PARTITION BY trace_id, place)
