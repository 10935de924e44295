-- question: What did each annotated range of the code cost on the host and on the GPU?
-- since: 0.1
-- columns name, count, host_ns
-- column gpu_ops (count): GPU ops launched inside it by its thread, or by replays of what was captured there
-- columns gpu_ns
-- column device_span_ns (ns): sum of its shadow's durations on the device (gpu_user_annotation); NULL: none
-- doubts: no_annotations, unlinked_gpu_ops
WITH host AS (
    FROM annotations WHERE side = 'host' AND is_asked(trace_id)
    QUALIFY is_outermost((trace_id, pid, tid, name), start_ns, end_ns)
),
cost AS (
    SELECT trace_id, name, count(*) AS count, sum(dur_ns)::BIGINT AS host_ns FROM host GROUP BY ALL
),
launched AS (
    SELECT trace_id, annotation AS name, count(*) AS gpu_ops, sum(dur_ns)::BIGINT AS gpu_ns
    FROM annotated_ops JOIN gpu_ops USING (trace_id, event_id) GROUP BY ALL
),
device AS (SELECT trace_id, name, sum(dur_ns)::BIGINT AS device_span_ns FROM annotations WHERE side = 'device'
    GROUP BY ALL)
SELECT trace_id, name, count, host_ns, coalesce(gpu_ops, 0) AS gpu_ops, coalesce(gpu_ns, 0) AS gpu_ns,
       device_span_ns
FROM cost FULL JOIN launched USING (trace_id, name) LEFT JOIN device USING (trace_id, name)
ORDER BY trace_id, host_ns DESC NULLS LAST, name
