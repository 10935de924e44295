-- question: Where does a thread fetch data that other processes load?
-- param trace (integer, default all): the trace_id to look at
-- column trace_id (id): the trace
-- column event_id (id): the fetch
-- column pid (id): the process
-- column tid (id): the thread
-- column start_ns (ns): where it begins
-- column dur_ns (ns): how long it takes
-- doubts: no_data_loading
SELECT trace_id, event_id, pid, tid, start_ns, dur_ns
FROM slices
WHERE kind = 'annotation' AND has(traits, 'prefetched_input')
    AND trace_id = coalesce(getvariable('trace'), trace_id)
ORDER BY trace_id, pid, tid, start_ns
