-- What each slice's label means, looked up once for each distinct name: the kind of event; the host's
-- activity and what a runtime or driver call does; a kernel's class and its part in a mixture of experts; an
-- operator's kind of work; the part of torch.compile; and traits. Without a category, what has a device, a
-- stream and a correlation is a kernel, unless its name says otherwise.
CREATE OR REPLACE TABLE slice_label AS
WITH on_device AS (
    SELECT label_id FROM event_row
    WHERE label_id IN (SELECT label_id FROM label WHERE phase = 'X' AND has_no_category(category))
    GROUP BY label_id
    HAVING bool_and(device_id IS NOT NULL AND stream IS NOT NULL AND correlation IS NOT NULL)
),
slice AS (
    SELECT label_id, name,
           CASE WHEN kind = 'other' AND label_id IN (FROM on_device) THEN 'kernel' ELSE kind END AS kind
    FROM (SELECT label_id, event_kind(category, name) AS kind, name FROM label WHERE phase = 'X')
),
-- Each step is a relation: DuckDB would write out the expression of a column wherever the next one names it.
known AS (
    SELECT
        kind, name,
        CASE WHEN kind IN ('runtime', 'driver') THEN call_of(text) END AS call,
        CASE WHEN kind IN ('annotation', 'python', 'cpu_op') THEN slice_activity(kind, text) END AS own,
        CASE WHEN kind = 'kernel' THEN kernel_class(text) END AS class,
        CASE WHEN kind = 'kernel' THEN expert_part(text) END AS expert,
        CASE WHEN kind = 'cpu_op' THEN work_kind(text) END AS work,
        compiled_part(kind, text) AS compiled_part, traits_of(kind, text) AS traits
    FROM (SELECT DISTINCT kind, name, coalesce(name, '') AS text FROM slice)
),
meaning AS (
    SELECT *, coalesce(activity_of_call(call), own)::host_activity AS activity,
           coalesce(compiled_part, CASE WHEN own = 'compilation' THEN 'compilation' END) AS compiled
    FROM known
)
SELECT label_id, kind, s.name, activity, call, class, expert, work, compiled, traits
FROM slice AS s JOIN meaning AS m USING (kind) WHERE s.name IS NOT DISTINCT FROM m.name;

-- The distinct names of GPU ops with their traits.
CREATE OR REPLACE VIEW gpu_op_name AS
SELECT DISTINCT kind, name, expert, traits FROM slice_label WHERE kind IN ('kernel', 'memcpy', 'memset');

-- Every event with a start and a duration, from any vendor. Events with negative, missing or absurd times
-- stay in `event` and are left out here, so that sums do not contain them. `pid` or `tid` is -1 where the
-- event does not name it.
CREATE OR REPLACE VIEW slices AS
SELECT
    trace_id, event_id, kind, name,
    coalesce(pid, -1) AS pid, coalesce(tid, -1) AS tid,
    ts_ns AS start_ns, ts_ns + dur_ns AS end_ns, dur_ns,
    correlation, external_id, device_id, stream, args, label_id, activity, call, class, work, compiled, traits
FROM event_row JOIN slice_label USING (label_id)
WHERE dur_ns BETWEEN 0 AND thresholds().late_time_ns
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

-- Calls that enqueue work for a device: `launched_kind` is kernel, graph, memcpy or memset. (`activity` is
-- the name that it had before format 9, kept through format 10.)
CREATE OR REPLACE VIEW launches AS
SELECT *, activity AS launched_kind FROM (
    SELECT * REPLACE (
        launched_by(call) AS activity
    )
    FROM runtime_calls WHERE is_launch(activity)
);

-- Waiting for a device: host calls that block (side 'host') and the waits that the device
-- recorded (side 'device', cuda_sync).
CREATE OR REPLACE VIEW syncs AS
SELECT trace_id, event_id, 'host' AS side, name, pid, tid, start_ns, end_ns, dur_ns, correlation,
       NULL::BIGINT AS device_id, NULL::BIGINT AS stream, NULL::BIGINT AS wait_on_stream
FROM runtime_calls WHERE activity = 'sync'
UNION ALL
SELECT trace_id, event_id, 'device', name, pid, tid, start_ns, end_ns, dur_ns, correlation,
       device_id, stream, TRY_CAST(args->>'wait_on_stream' AS BIGINT)
FROM slices WHERE kind = 'device_sync';

-- Waits that the device recorded, each with the event that it waits for: the work enqueued on a stream before
-- `record_ns`, when the event was recorded there; NULL: the trace does not say. Joined by the correlation of
-- the call that recorded the event.
-- https://github.com/pytorch/kineto/blob/main/libkineto/src/CuptiActivity.cpp
-- (wait_on_cuda_event_record_corr_id)
CREATE OR REPLACE VIEW event_waits AS
SELECT s.trace_id, s.event_id, s.correlation, s.stream,
       TRY_CAST(s.args->>'wait_on_stream' AS BIGINT) AS wait_on_stream,
       r.start_ns AS record_ns
FROM slices AS s LEFT JOIN (SELECT * FROM runtime_calls WHERE call = 'record_event') AS r
  ON s.trace_id = r.trace_id AND TRY_CAST(s.args->>'wait_on_cuda_event_record_corr_id' AS BIGINT)
      = r.correlation
WHERE s.kind = 'device_sync';

-- Frames of the Python stack; modules are frames too ("nn.Module: Linear_0").
CREATE OR REPLACE VIEW python_frames AS
SELECT
    trace_id, event_id, name, pid, tid, start_ns, end_ns, dur_ns,
    has(traits, 'module') AS is_module,
    TRY_CAST(args->>'Python id' AS BIGINT) AS python_id,
    TRY_CAST(args->>'Python parent id' AS BIGINT) AS python_parent_id
FROM slices WHERE kind = 'python';

-- record_function ranges: on the host (side 'host'), and their counterparts on the device's streams.
CREATE OR REPLACE VIEW annotations AS
SELECT trace_id, event_id, CASE kind WHEN 'annotation' THEN 'host' ELSE 'device' END AS side,
       name, pid, tid, start_ns, end_ns, dur_ns, external_id, traits
FROM slices WHERE kind IN ('annotation', 'gpu_annotation');

-- The profiler's steps, as the host ran them, one row each. Marks of the same name that overlap in time
-- (nested, or on several threads) are one step: from the earliest start to the latest end, with the event and
-- thread of the mark that starts first. Marks of zero length are ignored.
CREATE OR REPLACE VIEW steps AS
WITH mark AS (
    SELECT trace_id, event_id, name, pid, tid, start_ns, end_ns,
           {'start': start_ns, 'length': -dur_ns, 'pid': pid, 'tid': tid, 'id': event_id} AS place
    FROM annotations WHERE side = 'host' AND has(traits, 'step') AND dur_ns > 0
),
opening AS (
    SELECT *, (start_ns >= max(end_ns) OVER (PARTITION BY trace_id, name ORDER BY place
                                             ROWS BETWEEN UNBOUNDED PRECEDING
                                                 AND 1 PRECEDING)) IS NOT FALSE AS opens
    FROM mark
),
numbered AS (
    SELECT *, count(*) FILTER (opens) OVER (PARTITION BY trace_id, name
        ORDER BY place ROWS UNBOUNDED PRECEDING) AS number FROM opening
)
SELECT trace_id, arg_min(event_id, place) AS event_id, TRY_CAST(split_part(name, '#', 2) AS BIGINT) AS step,
       name,
       arg_min(pid, place) AS pid, arg_min(tid, place) AS tid, min(start_ns) AS start_ns,
       max(end_ns) AS end_ns,
       max(end_ns) - min(start_ns) AS dur_ns
FROM numbered GROUP BY trace_id, name, number;

-- Flow arrows between events (ac2g: launch to GPU op; fwdbwd: forward to backward): one row per end.
CREATE OR REPLACE VIEW flows AS
SELECT trace_id, event_id, category,
       CASE phase WHEN 's' THEN 'start' WHEN 't' THEN 'step' ELSE 'end' END AS side,
       flow_id, pid, tid, ts_ns
FROM event WHERE phase IN ('s', 't', 'f');

-- Counter samples (phase C) and CUPTI counter ranges, one row per value.
CREATE OR REPLACE VIEW counters AS
SELECT trace_id, event_id, name AS source, key AS counter, TRY_CAST(args->>key AS DOUBLE) AS value,
       ts_ns, dur_ns
FROM (
    SELECT *, unnest(json_keys(args)) AS key FROM event
    WHERE phase = 'C' OR (phase = 'X' AND event_kind(category, name) = 'counter_range')
);

-- Allocator records of profile_memory=True.
CREATE OR REPLACE VIEW memory_events AS
SELECT
    trace_id, event_id, pid, tid, ts_ns,
    TRY_CAST(args->>'Device Type' AS BIGINT) AS device_type,   -- c10::DeviceType: 0 CPU, 1 CUDA
    TRY_CAST(args->>'Device Id' AS BIGINT) AS device_id,
    TRY_CAST(args->>'Addr' AS UBIGINT) AS address,
    TRY_CAST(args->>'Bytes' AS BIGINT) AS bytes,               -- negative: freed
    TRY_CAST(args->>'Total Allocated' AS BIGINT) AS allocated_bytes,
    TRY_CAST(args->>'Total Reserved' AS BIGINT) AS reserved_bytes
FROM event WHERE phase = 'i' AND name = '[memory]';
