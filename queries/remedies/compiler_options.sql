-- question: What does the code that a compiler wrote around its kernels cost the host?
-- since: 0.1
-- title: Let the compiler write its wrapper in C++
-- causes: python, dispatch, launch
-- when: compiled IN ('wrapper', 'generated')
-- in_loops: true
-- needs: TorchInductor as the backend, and a C++ compiler.
-- caveat: C++ is assumed to need 8 us for each launch. mode="reduce-overhead" saves more where the step can
--     be a CUDA graph.
-- blind: no_runtime_calls
-- before:
--     model = torch.compile(model)
-- after:
--     torch._inductor.config.cpp_wrapper = True
--     model = torch.compile(model)
-- risks: Compilation takes longer. Some operators fall back to Python.
-- check: tracekit query after.json compile_overhead; tracekit diff before.json after.json
-- sources: https://docs.pytorch.org/tutorials/prototype/inductor_cpp_wrapper_tutorial.html
--     https://docs.pytorch.org/docs/stable/torch.compiler_get_started.html
-- doubts: no_gpu_ops, no_runtime_calls, no_compiled_code
-- Compiled code that launches kernels which Inductor generated; that of graphs is a replay.
WITH region AS (
    FROM slices WHERE compiled IN ('wrapper', 'generated') AND is_asked(trace_id)
    QUALIFY is_outermost((trace_id, pid, tid), start_ns, end_ns)
),
single AS (
    SELECT r.trace_id, r.event_id, count(DISTINCT launch_id) AS launches
    FROM gpu_ops AS g ASOF JOIN region AS r
      ON g.trace_id = r.trace_id AND g.pid = r.pid AND g.tid = r.tid AND g.launch_start_ns >= r.start_ns
    WHERE g.launch_start_ns < r.end_ns
    GROUP BY ALL HAVING NOT bool_or(g.is_graph) AND bool_or(starts_with(g.name, 'triton_'))
)
SELECT trace_id, NULL AS place,
       format('{} launches', in_step(sum(launches) OVER (PARTITION BY trace_id), steps)) AS detail,
       'overhead' AS target, event_id, pid, tid, start_ns, dur_ns,
       launches * thresholds().launch_floor_ns / dur_ns AS factor
FROM region JOIN single USING (trace_id, event_id) JOIN run_steps USING (trace_id)
WHERE factor <= thresholds().compiled_overhead
