-- Work on devices.

-- The devices of each trace, ranked: most kernel time first, ties by most time in GPU ops, then by the
-- smallest number. Reports on a single device use the first one.
CREATE OR REPLACE VIEW ranked_devices AS
SELECT trace_id, device_id,
       row_number() OVER (PARTITION BY trace_id ORDER BY sum(dur_ns) FILTER (kind = 'kernel') DESC NULLS LAST,
           sum(dur_ns) DESC, device_id) AS place
FROM gpu_ops GROUP BY trace_id, device_id;

CREATE OR REPLACE VIEW main_device AS
SELECT trace_id, device_id FROM ranked_devices WHERE place = 1;

CREATE OR REPLACE VIEW kernels AS
SELECT
    o.trace_id, o.event_id, o.name, class, o.device_id, o.stream, start_ns, end_ns, o.dur_ns, o.correlation,
    o.external_id, args->'grid' AS grid, args->'block' AS block,
    TRY_CAST(args->>'registers per thread' AS BIGINT) AS registers_per_thread,
    TRY_CAST(args->>'shared memory' AS BIGINT) AS shared_memory_bytes, args
FROM gpu_ops AS o JOIN event_row AS e ON o.trace_id = e.trace_id AND o.event_id = e.event_id
WHERE kind = 'kernel';

CREATE OR REPLACE VIEW memcpys AS
SELECT trace_id, event_id, name, copy_kind, device_id, stream, start_ns, end_ns, dur_ns, bytes, correlation,
       external_id
FROM gpu_ops WHERE kind = 'memcpy';

CREATE OR REPLACE VIEW memsets AS
SELECT trace_id, event_id, name, device_id, stream, start_ns, end_ns, dur_ns, bytes, correlation, external_id
FROM gpu_ops WHERE kind = 'memset';
