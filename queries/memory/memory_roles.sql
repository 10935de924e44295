-- question: What held the memory at a snapshot's peak: parameters, gradients, activations ...?
-- since: 0.1
-- columns device_id
-- column role (text): parameters (with buffers), gradients, optimizer states, activations, temporaries (freed
--     in the phase that made them), inputs, communication (buckets, gathered shards), workspace or unknown
-- column phase (text): what the program did when it allocated: setup, forward, backward, optimizer, input,
--     communication, workspace; NULL: no frame tells
-- columns place, cpu_op
-- column evidence (text): how the role is known, or why it is not
-- columns allocations, live_bytes
-- column share_of_live (fraction of all live bytes of the device): live_bytes over the live bytes of all rows
-- column peak_bytes (bytes): memory allocated at the peak, by the allocator's count; NULL: no actions were
--     recorded, and rows are of the time of the snapshot
-- column peak_at_ns (ns): time at which allocated memory first reached its peak
-- column peak_phase (text): the phase of the allocation that made the peak
-- column peak_place (text): the place of that allocation
-- doubts: no_memory_events
-- A role needs a stack and a lifetime that tell it: size alone decides nothing.
WITH peak AS (
    SELECT h.trace_id, h.device_id, h.peak_bytes, h.at_ns, a.place,
           CASE WHEN f.in_backward THEN 'backward' ELSE f.phase END AS phase
    FROM memory_high AS h
    LEFT JOIN allocation AS a USING (trace_id, device_type, device_id, event_id)
    LEFT JOIN stack_frame AS f ON a.trace_id = f.trace_id AND a.stack_id = f.stack_id
    WHERE is_asked(h.trace_id)
),
held AS (
    SELECT trace_id, device_id, role, phase, place, cpu_op, evidence, sum(at_peak)::BIGINT AS allocations,
           sum(at_peak * bytes)::BIGINT AS live_bytes
    FROM memory_role WHERE at_peak > 0 AND is_asked(trace_id) GROUP BY ALL
)
SELECT h.trace_id, h.device_id, role, h.phase, h.place, cpu_op, evidence, allocations, live_bytes,
       live_bytes / sum(live_bytes) OVER (PARTITION BY h.trace_id, h.device_id) AS share_of_live,
       peak_bytes, at_ns AS peak_at_ns, p.phase AS peak_phase, p.place AS peak_place
FROM held AS h LEFT JOIN peak AS p USING (trace_id, device_id)
ORDER BY h.trace_id, h.device_id, sum(live_bytes) OVER (PARTITION BY h.trace_id, h.device_id, role) DESC,
         role, live_bytes DESC, h.place, cpu_op, evidence, h.phase
