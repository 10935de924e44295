-- question: Which events happened once, or took far longer than usual, and are not judged?
-- since: 0.1
-- column kind (text): as in one_off_candidates, or step (one with far more work than the median
--     one) or start (of a run without steps)
-- columns side, event_id, pid, tid, start_ns, dur_ns
-- column usual_ns (ns): the typical duration of similar events, without waits for the device
-- columns excess_ns, cause, name, place
-- column calls (text): of a step, range or start: the names in which its cause takes most time; of an
--     operator that ran before with other shapes: `a new shape`
-- doubts: no_gpu_ops, unlinked_gpu_ops, absurd_duration
-- These are stored with the verdict (table one_off): a database that was loaded without verdicts has none.
SELECT trace_id, kind, side, event_id, pid, tid, start_ns, dur_ns, usual_ns, excess_ns, cause, name, place,
       calls
FROM one_off WHERE is_asked(trace_id)
ORDER BY trace_id, start_ns, event_id, side, cause
