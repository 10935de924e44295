-- question: Which masks are built again in every call?
-- since: 0.1
-- title: Build the mask once
-- causes: dispatch, launch, memory-bandwidth
-- when: name IN ('aten::tril', 'aten::triu')
-- needs: A mask that depends on sizes alone.
-- blind: no_shapes
-- before:
--     def forward(self, x):
--         mask = torch.tril(torch.ones(n, n, device=x.device))    # two kernels and more, every call
-- after:
--     def __init__(self, n):
--         self.register_buffer("mask", torch.ones(n, n).tril(), persistent=False)
--
--     # Or no mask: F.scaled_dot_product_attention(q, k, v, is_causal=True)
-- risks: The mask stays in memory, and the longest size has to be known: slice it for shorter inputs.
-- check: tracekit query after.json top_cpu_ops; tracekit diff before.json after.json
-- sources: https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html
-- doubts: no_operators, no_shapes, no_stacks
-- A triangle of one shape, built at one place more than once, what filled it before and what negates it.
WITH operator AS (
    SELECT o.trace_id, o.event_id, o.name, o.pid, o.tid, o.start_ns, o.dur_ns,
           shapes_of(input_dims)[1] AS shape,
           lag(o.event_id) OVER thread AS before_id, lead(o.event_id) OVER thread AS after_id
    FROM cpu_ops AS o JOIN thread_slice AS s USING (trace_id, event_id)
    WHERE s.outer_op_id = o.event_id AND is_asked(o.trace_id)
    WINDOW thread AS (PARTITION BY o.trace_id, o.pid, o.tid ORDER BY o.start_ns)
),
triangle AS (FROM operator WHERE name IN ('aten::tril', 'aten::triu')),
-- A capture calls it once, and each replay builds it again.
replayed AS (
    SELECT c.trace_id, outer_op_id AS event_id, count(DISTINCT launch_id) AS times
    FROM graph_site AS s JOIN captured_launches AS c
      ON s.trace_id = c.trace_id AND s.capture_trace_id = c.trace_id AND s.capture_launch_id = c.event_id
    GROUP BY ALL
),
again AS (
    FROM triangle LEFT JOIN call_site USING (trace_id, event_id) LEFT JOIN replayed USING (trace_id, event_id)
    QUALIFY sum(coalesce(times, 1)) OVER (PARTITION BY trace_id, place, shape) > 1
),
priced AS (
    SELECT a.trace_id, a.place, o.event_id, o.pid, o.tid, o.start_ns, o.dur_ns, o.dur_ns AS ns,
           'mask ' || a.shape::VARCHAR AS told
    FROM (SELECT *, unnest([event_id, before_id, after_id]) AS call_id FROM again) AS a
    JOIN operator AS o ON a.trace_id = o.trace_id AND call_id = o.event_id
    WHERE call_id = a.event_id
        OR o.event_id = a.before_id
            AND o.name IN ('aten::ones', 'aten::full', 'aten::zeros', 'aten::ones_like', 'aten::full_like')
        OR o.event_id = a.after_id AND o.name IN ('aten::logical_not', 'aten::bitwise_not')
)
SELECT trace_id, place, detail, 'call' AS target, event_id, pid, tid, start_ns, dur_ns, 0 AS factor
FROM detailed('priced')
