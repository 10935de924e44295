-- question: Which calls of acmeFence keep the host from working ahead?
-- title: Call acmeFence once, when the result is read
-- causes: sync
-- when: kind = 'runtime' AND name = 'acmeFence'
-- needs: Nothing on the host reads a result between two fences.
-- before:
--     for batch in batches:
--         submit(batch)
--         acme.fence()
-- after:
--     for batch in batches:
--         submit(batch)
--     acme.fence()
-- risks: Tasks that have been submitted keep their memory until the fence.
-- check: tracekit query after.acme acme_fences; tracekit diff before.acme after.acme
-- sources: Acme's programming guide, "Fences"
-- doubts: no_gpu_ops
SELECT trace_id, NULL AS place, 'acmeFence' AS detail, 'wait' AS target, event_id, pid, tid, start_ns, dur_ns,
       0 AS factor
FROM slices
WHERE kind = 'runtime' AND name = 'acmeFence' AND is_asked(trace_id)
