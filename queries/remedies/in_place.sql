-- question: Which out-of-place operators copy their input first, although one underscore would avoid it?
-- since: 0.1
-- title: Change the tensor in place
-- causes: memory-bandwidth, launch, dispatch
-- when: name = 'aten::clone'
-- needs: An input that nothing reads later, and that autograd does not keep.
-- before:
--     scores = scores.masked_fill(mask, float("-inf"))    # copies scores, then fills the copy
-- after:
--     scores.masked_fill_(mask, float("-inf"))
-- risks: Other references to the tensor see the change. Autograd raises an error if it needs the old value.
-- check: tracekit query after.json top_cpu_ops; tracekit diff before.json after.json
-- sources: https://docs.pytorch.org/docs/stable/notes/autograd.html#in-place-operations-with-autograd
-- doubts: no_operators, no_stacks
-- An operator that calls clone and then the operator of its own name with an underscore.
WITH cloned AS (
    SELECT c.trace_id, c.event_id, c.pid, c.tid, c.start_ns, c.dur_ns, parent_id, w.name AS operator
    FROM cpu_ops AS c JOIN thread_slice USING (trace_id, event_id)
    JOIN cpu_ops AS w ON c.trace_id = w.trace_id AND parent_id = w.event_id
    WHERE c.name = 'aten::clone' AND is_asked(c.trace_id) AND w.name || '_' IN (SELECT name FROM slice_label)
),
changing AS (
    SELECT c.trace_id, c.name, c.start_ns, parent_id
    FROM cpu_ops AS c JOIN thread_slice USING (trace_id, event_id)
    WHERE (c.trace_id, c.name) IN (SELECT (trace_id, operator || '_') FROM cloned)
),
copy AS (
    SELECT c.*, operator || ', in place: ' || i.name AS told, c.dur_ns AS ns
    FROM cloned AS c JOIN changing AS i USING (trace_id, parent_id)
    WHERE i.name = operator || '_' AND i.start_ns > c.start_ns
),
at_place AS (FROM copy LEFT JOIN call_site USING (trace_id, event_id))
SELECT trace_id, place, detail, 'call' AS target, event_id, pid, tid, start_ns, dur_ns, 0 AS factor
FROM detailed('at_place')
