-- question: Where does a thread fetch data that other processes load?
-- since: 0.1
-- columns event_id, pid, tid, start_ns, dur_ns
-- when: has(traits, 'prefetched_input')
-- doubts: no_data_loading
SELECT trace_id, event_id, pid, tid, start_ns, dur_ns FROM slices
WHERE kind = 'annotation' AND has(traits, 'prefetched_input') AND is_asked(trace_id)
ORDER BY trace_id, pid, tid, start_ns
