-- question: What did each annotated range of the code cost on the host and on the GPU?
-- params trace
-- columns trace_id
-- column name (text): the annotation (record_function, profiler step, optimizer, data loader ...)
-- columns count
-- column host_ns (ns): sum of its durations on the host; a range inside one of its name counts once
-- column gpu_ops (count): kernels, copies and fills launched inside it by its own thread
-- columns gpu_ns
-- column device_span_ns (ns): sum of its shadow's durations on the device (gpu_user_annotation); NULL: none
-- doubts: no_annotations, unlinked_gpu_ops
WITH host AS (
    SELECT trace_id, pid, tid, name, start_ns, end_ns, dur_ns FROM annotations
    WHERE side = 'host' AND trace_id = coalesce(getvariable('trace'), trace_id)
),
range AS (SELECT * FROM outermost('host', of_name := TRUE)),
cost AS (FROM launched_inside('range')),
device AS (SELECT trace_id, name, sum(dur_ns)::BIGINT AS device_span_ns FROM annotations WHERE side = 'device'
    GROUP BY ALL)
SELECT trace_id, name, count(*) AS count, sum(dur_ns)::BIGINT AS host_ns, sum(gpu_ops)::BIGINT AS gpu_ops,
       sum(gpu_ns)::BIGINT AS gpu_ns,
       any_value(device_span_ns) AS device_span_ns
FROM cost LEFT JOIN device USING (trace_id, name)
GROUP BY trace_id, name
ORDER BY trace_id, host_ns DESC, name
