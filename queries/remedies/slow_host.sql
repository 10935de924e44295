-- question: Does even the cheapest operator take many times as long as on other hosts?
-- since: 0.1
-- title: Find out what slows this host down
-- causes: dispatch, launch, python
-- frameworks: PyTorch
-- when: name = 'aten::as_strided' AND event_count >= thresholds().fewest_views
--     AND longest_ns >= thresholds().slow_view_ns
-- needs: A host that does nothing else: enough cores, their full clock, a release build of PyTorch, and no
--     debugger or sanitizer.
-- caveat: It is assumed that the host becomes as fast as the slowest other one. The recorder could be what
--     slows it down: time a step without it.
-- before:
--     docker run --cpus=2 ... python train.py       # or a build with DEBUG=1, or 2 cores for 8 ranks
-- after:
--     docker run --cpuset-cpus=0-15 ... python train.py
-- risks: None, but the reason may lie outside the program.
-- check: python -m timeit -s "import torch; t = torch.ones(4)" "t.as_strided((2,), (1,))"
-- sources: https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
--     https://docs.kernel.org/admin-guide/cgroup-v2.html#cpu
-- doubts: absurd_duration
-- `as_strided` only makes a view: on 38 hosts its median call took 0.2 to 4 us.
WITH host AS (
    SELECT trace_id, median(dur_ns) AS usual_ns
    FROM slices WHERE name = 'aten::as_strided' AND kind = 'cpu_op' AND is_asked(trace_id)
    GROUP BY trace_id
    HAVING count(*) >= thresholds().fewest_views AND usual_ns >= thresholds().slow_view_ns
)
SELECT trace_id, NULL AS place,
       duration_text(usual_ns) || ' in the median for a view (aten::as_strided)' AS detail, 'host' AS target,
       NULL::BIGINT AS event_id, pid, tid, min(start_ns) AS start_ns,
       max(end_ns) - min(start_ns) AS dur_ns, thresholds().usual_view_ns / usual_ns AS factor
FROM slices JOIN host USING (trace_id)
WHERE kind IN ('cpu_op', 'runtime', 'driver')
GROUP BY trace_id, usual_ns, pid, tid
