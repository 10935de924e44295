-- The distinct names of GPU ops with their traits.
CREATE OR REPLACE VIEW gpu_op_name AS
SELECT DISTINCT kind, name, expert, format, traits FROM slice_label
WHERE kind IN ('kernel', 'memcpy', 'memset');

-- Every event with a start and a duration, from any vendor, except those with negative, missing or absurd
-- times, so that sums do not contain them. `pid` or `tid` is -1 if the event does not have it.
CREATE OR REPLACE VIEW slices AS
SELECT
    trace_id, event_id, kind, name, coalesce(pid, -1) AS pid, coalesce(tid, -1) AS tid, ts_ns AS start_ns,
    ts_ns + dur_ns AS end_ns, dur_ns,
    correlation, external_id, device_id, stream, args, label_id, activity, call, class, work, compiled, traits
FROM event_row JOIN slice_label USING (label_id)
WHERE dur_ns BETWEEN 0 AND thresholds().absurd_duration_ns
  AND ts_ns BETWEEN -thresholds().late_time_ns AND thresholds().late_time_ns;

CREATE OR REPLACE VIEW cpu_ops AS
SELECT
    trace_id, event_id, name, pid, tid, start_ns, end_ns, dur_ns, external_id,
    TRY_CAST(args->>'Sequence number' AS BIGINT) AS sequence_number,
    args->'Input Dims' AS input_dims, args->'Input type' AS input_types, args, work, traits
FROM slices WHERE kind = 'cpu_op';

-- All runtime and driver calls.
CREATE OR REPLACE VIEW runtime_calls AS
SELECT trace_id, event_id, kind, name, pid, tid, start_ns, end_ns, dur_ns, correlation, external_id, label_id,
       activity, call, traits, args
FROM slices WHERE kind IN ('runtime', 'driver');

-- Calls that enqueue work for a device: `launched_kind` is kernel, graph, memcpy or memset.
CREATE OR REPLACE VIEW launches AS
SELECT * EXCLUDE (activity), CASE call WHEN 'launch_graph' THEN 'graph' WHEN 'fill' THEN 'memset'
    WHEN 'launch_kernel' THEN 'kernel' ELSE 'memcpy' END AS launched_kind
FROM runtime_calls WHERE activity IN ('launch', 'copy');

-- Waiting for a device: host calls that block (side 'host'), waits of the device (side 'device', cuda_sync).
CREATE OR REPLACE VIEW syncs AS
SELECT trace_id, event_id, 'host' AS side, name, pid, tid, start_ns, end_ns, dur_ns, correlation,
       NULL::BIGINT AS device_id, NULL::BIGINT AS stream, NULL::BIGINT AS wait_on_stream
FROM runtime_calls WHERE activity = 'sync'
UNION ALL
SELECT trace_id, event_id, 'device', name, pid, tid, start_ns, end_ns, dur_ns, correlation,
       device_id, stream, TRY_CAST(args->>'wait_on_stream' AS BIGINT)
FROM slices WHERE kind = 'device_sync';

-- Waits that the device recorded, each with the event that it waits for: the work enqueued on a stream before
-- `record_ns`, when the event was recorded there; NULL: unknown. Joined by the correlation of
-- the call that recorded the event.
-- https://github.com/pytorch/kineto/blob/main/libkineto/src/CuptiActivity.cpp
-- (wait_on_cuda_event_record_corr_id)
CREATE OR REPLACE VIEW event_waits AS
SELECT s.trace_id, s.event_id, s.correlation, s.stream,
       TRY_CAST(s.args->>'wait_on_stream' AS BIGINT) AS wait_on_stream, r.start_ns AS record_ns
FROM slices AS s LEFT JOIN (FROM runtime_calls WHERE call = 'record_event') AS r ON s.trace_id = r.trace_id
    AND TRY_CAST(s.args->>'wait_on_cuda_event_record_corr_id' AS BIGINT) = r.correlation
WHERE s.kind = 'device_sync';

-- Frames of the Python stack; modules are frames too ("nn.Module: Linear_0").
CREATE OR REPLACE VIEW python_frames AS
SELECT
    trace_id, event_id, name, pid, tid, start_ns, end_ns, dur_ns, has(traits, 'module') AS is_module,
    TRY_CAST(args->>'Python id' AS BIGINT) AS python_id,
    TRY_CAST(args->>'Python parent id' AS BIGINT) AS python_parent_id
FROM slices WHERE kind = 'python';

-- record_function ranges: on the host (side 'host'), and their counterparts on the device's streams.
CREATE OR REPLACE VIEW annotations AS
SELECT trace_id, event_id, CASE kind WHEN 'annotation' THEN 'host' ELSE 'device' END AS side,
       name, pid, tid, start_ns, end_ns, dur_ns, external_id, traits
FROM slices WHERE kind IN ('annotation', 'gpu_annotation');

-- Flow arrows between events (ac2g: launch to GPU op; fwdbwd: forward to backward): one row per end.
CREATE OR REPLACE VIEW flows AS
SELECT trace_id, event_id, category,
       CASE phase WHEN 's' THEN 'start' WHEN 't' THEN 'step' ELSE 'end' END AS side,
       flow_id, pid, tid, ts_ns
FROM event WHERE phase IN ('s', 't', 'f');

-- Counter samples (phase C) and CUPTI counter ranges, one row per value. A series without a name has that of
-- its event.
CREATE OR REPLACE VIEW counters AS
SELECT trace_id, event_id, name AS source, if(key = '', name, key) AS counter,
       TRY_CAST(args->>if(key = '', '/', key) AS DOUBLE) AS value, ts_ns, dur_ns
FROM (
    SELECT e.*, l.name, unnest(json_keys(args)) AS key
    FROM event_row AS e JOIN label AS l USING (label_id) LEFT JOIN slice_label AS s USING (label_id)
    WHERE phase = 'C' OR s.kind = 'counter_range'
);
