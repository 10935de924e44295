-- Reads slices (files that hold a JSON array of events) into rows of `event`, in order.
-- $trace_id and the list $slices are put in by ingest.
--
-- The reader hands over each event's text and `e` takes it apart in one pass. A JSON parser makes
-- a double of a decimal, which cannot hold an absolute timestamp in nanoseconds: where a decimal
-- is too long for that, its digits are taken from the text. An event that the columns cannot say
-- in full (an unknown or repeated key, a textual timestamp ...) keeps its text in `raw`.
INSERT INTO event
WITH parsed AS (
    SELECT
        json AS text,
        len(json_keys(json)) AS keys,
        json_transform(json, '{
            "ph": "JSON", "cat": "JSON", "name": "JSON", "pid": "JSON", "tid": "JSON",
            "ts": "JSON", "dur": "JSON", "id": "JSON", "bp": "JSON", "s": "JSON", "args": "JSON"
        }') AS e
    FROM read_json_objects($slices, format = 'array', maximum_object_size = $object_bytes)
),
fields AS (
    SELECT
        text, keys,
        e.ph::VARCHAR AS ph, e.cat::VARCHAR AS cat, e.name::VARCHAR AS label,
        e.pid::VARCHAR AS process, e.tid::VARCHAR AS thread,
        exact_decimal(e.ts::VARCHAR, 'ts', text) AS ts,
        exact_decimal(e.dur::VARCHAR, 'dur', text) AS dur,
        e.id::VARCHAR AS id, e.bp::VARCHAR AS bp, e.s::VARCHAR AS s, e.args AS args,
        json_transform(e.args, '{
            "correlation": "JSON", "External id": "JSON", "device": "JSON", "stream": "JSON"
        }') AS a
    FROM parsed
),
typed AS (
    SELECT
        text,
        keys,
        json_text(ph) AS phase,
        json_text(cat) AS category,
        json_text(label) AS name,
        thread_number(process) AS pid,
        thread_number(thread) AS tid,
        to_ns(ts) AS ts_ns,
        to_ns(dur) AS dur_ns,
        json_integer(a.correlation::VARCHAR) AS correlation,
        -- Kineto wrote "external id" until 2022; a struct cannot hold both spellings.
        json_integer(coalesce(a."External id"::VARCHAR,
                              CASE WHEN contains(args, '"external id"')
                              THEN json_extract(args, '$."external id"')::VARCHAR END)) AS external_id,
        json_integer(a.device::VARCHAR) AS device_id,
        json_integer(a.stream::VARCHAR) AS stream,
        CASE WHEN left(id, 1) <> '"' THEN TRY_CAST(id AS BIGINT) END AS flow_id,
        json_text(bp) AS flow_bind,
        json_text(s) AS scope,
        args,
        -- How many keys the columns reproduce.
        (phase IS NOT NULL)::INTEGER + (category IS NOT NULL)::INTEGER + (name IS NOT NULL)::INTEGER
        + is_integer(process)::INTEGER + is_integer(thread)::INTEGER
        + (ts_ns IS NOT NULL AND whole_ns(ts))::INTEGER
        + (dur_ns IS NOT NULL AND whole_ns(dur))::INTEGER
        + (flow_id IS NOT NULL)::INTEGER
        + (flow_bind IS NOT NULL)::INTEGER + (scope IS NOT NULL)::INTEGER
        + (args IS NOT NULL)::INTEGER AS reproduced
    FROM fields
)
SELECT
    $trace_id, NULL, phase, category, name, pid, tid, ts_ns, dur_ns, correlation, external_id,
    device_id, stream, flow_id, flow_bind, scope, args,
    CASE WHEN reproduced = keys AND keys > 0 THEN NULL ELSE text END
FROM typed
