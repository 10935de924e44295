-- question: How much of the host's time does the profiler take, by step times measured with and without it?
-- since: 0.1
-- title: Record less: the profiler slows the host down
-- causes: dispatch, launch, python
-- when: has(traits, 'step'); (SELECT count(metadata->'tracekit') > 0 FROM trace)
-- is_apart: true
-- needs: A question that operators and kernels answer, without stacks, shapes or allocations.
-- caveat: All work of the host is assumed to be slowed down by the same factor. The program itself gains
--     nothing.
-- before:
--     with torch.profiler.profile(with_stack=True, record_shapes=True, profile_memory=True) as profiler:
--         train(profiler)
-- after:
--     with torch.profiler.profile() as profiler:      # and once more with stacks, to find places
--         train(profiler)
-- risks: Without stacks, advice points to modules or operators instead of lines; without shapes, FLOPs are
--     unknown.
-- check: tracekit capture WORKLOAD -o after.json; tracekit query after.json capture_facts
-- sources: https://docs.pytorch.org/docs/stable/profiler.html
--     https://docs.pytorch.org/tutorials/recipes/recipes/profiler_recipe.html
-- doubts: no_steps
-- Only `tracekit capture` measures both; the steps in the trace have to show it, too.
WITH dilated AS (
    SELECT trace_id, step_id, profiled_ns / unprofiled_ns AS dilation FROM measured_steps
    JOIN (SELECT trace_id, min(event_id) AS step_id, median(dur_ns) AS step_ns
        FROM steps WHERE event_id >= 0 GROUP BY trace_id) USING (trace_id)
    WHERE unprofiled_ns > 0 AND least(profiled_ns, step_ns) > thresholds().dilation_ratio * unprofiled_ns
        AND is_asked(trace_id)
),
stacked AS (SELECT DISTINCT trace_id FROM python_frames SEMI JOIN dilated USING (trace_id))
SELECT trace_id, NULL AS place,
       format('a step takes {:.1f} times as long', dilation)
       || if(trace_id IN (FROM stacked), ', with stacks', '') AS detail,
       'host' AS target, step_id AS event_id, pid, tid, start_ns, end_ns - start_ns AS dur_ns,
       1 / dilation AS factor
FROM host_thread JOIN dilated USING (trace_id)
