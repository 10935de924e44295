-- question: Where does a thread only wait: for a lock, a queue, a socket, or a time to pass?
-- param trace (integer, default all): the trace_id to look at
-- column trace_id (id): the trace
-- column event_id (id): the outermost frame that only waits
-- column name (text): its name
-- column pid (id): the process
-- column tid (id): the thread
-- column start_ns (ns): where it begins
-- column dur_ns (ns): how long it takes
-- doubts: no_stacks
WITH waiting AS (
    SELECT trace_id, event_id, name, pid, tid, start_ns, dur_ns, end_ns FROM slices
    WHERE has(traits, 'thread_wait') AND dur_ns > 0
        AND trace_id = coalesce(getvariable('trace'), trace_id)
)
SELECT trace_id, event_id, name, pid, tid, start_ns, dur_ns FROM outermost('waiting')
ORDER BY trace_id, pid, tid, start_ns
