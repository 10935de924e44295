-- question: Which convolutions and attention take milliseconds again and again, for new shapes?
-- since: 0.1
-- title: Pad inputs to a few shapes
-- causes: dispatch
-- when: longest_ns >= thresholds().stall_ns
--     AND work IN ('convolution', 'convolution_backward', 'attention', 'attention_backward')
-- once: new-shape
-- outside_loops: true
-- needs: Inputs that can be padded and masked; a step of each shape before the steps that count.
-- caveat: That a library prepares is inferred: the first call of each shape takes far longer than others, and
--     no call of the runtime explains it.
-- blind: no_shapes, no_steps
-- before:
--     for batch in loader:                 # padded to its longest row: hardly two batches are alike
--         train_step(pad(batch))
-- after:
--     for batch in loader:
--         train_step(pad(batch, multiple_of=64))
--
--     # Or without preparation, if shapes have to vary:
--     torch.backends.cudnn.benchmark = False               # does not time algorithms for each shape
--     torch.backends.cuda.enable_cudnn_sdp(False)          # flash attention takes any length
-- risks: Padding is work, too. A library may choose a slower algorithm for a rounded shape than for its own.
-- check: tracekit query TRACE one_offs
-- sources: https://docs.nvidia.com/deeplearning/cudnn/frontend/latest/utilities/dynamic-kernel-cache.html
--     https://docs.pytorch.org/docs/stable/backends.html
-- doubts: absurd_duration
-- A library prepares for the first call of each shape. The start of a run prepares, too: shapes that an
-- earlier step's calls of the operator did not have show what goes on, and a call of as many elements or more
-- shows how long it takes without.
WITH call AS (
    SELECT trace_id, event_id, pid, tid, name, start_ns, end_ns, dur_ns, args->>'Input Dims' AS dims
    FROM cpu_ops
    WHERE work IN ('convolution', 'convolution_backward', 'attention', 'attention_backward')
        AND is_asked(trace_id)
    QUALIFY is_outermost((trace_id, pid, tid), start_ns, end_ns)
),
sized AS (
    SELECT dims, list_sum(list_transform(shapes_of(dims), lambda shape: elements(shape))) AS elements
    FROM (SELECT DISTINCT dims FROM call) WHERE len(shapes_of(dims)) > 0
),
met AS (
    SELECT c.* EXCLUDE dims,
           row_number() OVER (PARTITION BY c.trace_id, c.name, dims ORDER BY c.start_ns) = 1 AS is_first,
           min(c.start_ns) OVER (PARTITION BY c.trace_id, c.name) < s.start_ns AS is_later,
           min(c.dur_ns) OVER (PARTITION BY c.trace_id, c.name ORDER BY elements DESC) AS usual_ns
    FROM call AS c JOIN sized USING (dims)
    ASOF LEFT JOIN steps AS s ON c.trace_id = s.trace_id AND c.start_ns >= s.start_ns
),
explained AS (
    SELECT c.trace_id, c.event_id FROM call AS c JOIN slices AS s
      ON c.trace_id = s.trace_id AND c.pid = s.pid AND c.tid = s.tid
        AND s.start_ns >= c.start_ns AND s.end_ns <= c.end_ns
    WHERE s.kind IN ('runtime', 'driver') AND s.dur_ns >= thresholds().half_share * thresholds().stall_ns
        AND s.dur_ns >= thresholds().half_share * c.dur_ns
),
prepared AS (
    SELECT *, usual_ns / dur_ns AS factor, dur_ns AS ns, name AS told FROM met
    WHERE is_first AND dur_ns >= greatest(thresholds().stall_ns, thresholds().one_off_ratio * usual_ns)
        AND (trace_id, event_id) NOT IN (FROM explained)
    QUALIFY count_if(is_later) OVER (PARTITION BY trace_id) >= thresholds().fewest_alike
),
at_place AS (FROM prepared LEFT JOIN call_site USING (trace_id, event_id))
SELECT trace_id, place, detail, 'host' AS target, event_id, pid, tid, start_ns, dur_ns, factor
FROM detailed('at_place')
