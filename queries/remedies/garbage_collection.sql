-- question: When does Python's garbage collector stop the program?
-- params trace
-- columns trace_id
-- column place (text): the Python line that calls gc.collect(); NULL: the collector runs by itself
-- column detail (text): how many collections, and the longest
-- column target (text): host: the collection
-- columns event_id, pid, tid, start_ns, dur_ns, factor
-- doubts: no_stacks
-- A call of gc.collect() is a frame of the stack. Collections that Python starts itself are recorded, as
-- `Python GC`, with stacks and _ExperimentalConfig(record_python_gc_info=True):
-- https://github.com/pytorch/pytorch/pull/161209
-- Those around a graph's capture belong to it.
WITH named AS (
    SELECT trace_id, event_id, pid, tid, name, start_ns, end_ns, dur_ns FROM slices AS s
    WHERE kind = 'python' AND name IN ('Python GC', '<built-in function collect>')
        AND trace_id = coalesce(getvariable('trace'), trace_id)
        AND NOT EXISTS (FROM graph_captures AS c WHERE c.trace_id = s.trace_id AND c.pid = s.pid
            AND s.start_ns BETWEEN c.start_ns - thresholds().after_capture_ns
                AND c.end_ns + thresholds().after_capture_ns)
),
collection AS (FROM outermost('named')),
site AS (FROM places_of('collection')),
placed AS (
    SELECT c.*, CASE WHEN name <> 'Python GC' THEN place END AS place
    FROM collection AS c JOIN site USING (trace_id, event_id)
)
SELECT trace_id, place,
       format('{} collections, the longest {:.1f} ms', count(*) OVER here, max(dur_ns) OVER here / 1e6)
           AS detail,
       'host' AS target, event_id, pid, tid, start_ns, dur_ns, 0 AS factor
FROM placed
WINDOW here AS (PARTITION BY trace_id, place)
ORDER BY trace_id, place, start_ns
