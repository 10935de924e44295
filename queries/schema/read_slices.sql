-- Reads slices (files that hold a JSON array of events) into rows of `event`. Ingest puts in
-- $trace_id and the list $slices; event_id is -1, -2 ... by slice until its events are numbered.
--
-- The reader hands over each event's text and `e` takes it apart in one pass. An event that the
-- columns cannot say in full (an unknown or repeated key, a textual timestamp ...) keeps its text
-- in `raw`.
INSERT INTO event
WITH parsed AS (
    SELECT
        file_index,
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
        file_index, text, keys, e.args,
        json_text(e.ph::VARCHAR) AS phase, json_text(e.cat::VARCHAR) AS category, json_text(e.name::VARCHAR) AS name,
        json_text(e.bp::VARCHAR) AS flow_bind, json_text(e.s::VARCHAR) AS scope,
        json_integer(e.id::VARCHAR) AS flow_id,
        e.pid::VARCHAR AS process, json_integer(process) AS pid,
        e.tid::VARCHAR AS thread, json_integer(thread) AS tid,
        e.ts::VARCHAR AS ts, plain_ns(ts, TRY_CAST(ts AS DOUBLE)) AS ts_ns,
        e.dur::VARCHAR AS dur, plain_ns(dur, TRY_CAST(dur AS DOUBLE)) AS dur_ns,
        CASE WHEN ts IS NOT NULL AND ts_ns IS NULL THEN exact_digits(ts, 'ts', text) END AS ts_digits,
        CASE WHEN dur IS NOT NULL AND dur_ns IS NULL THEN exact_digits(dur, 'dur', text) END AS dur_digits,
        json_transform(e.args, '{
            "correlation": "BIGINT", "External id": "BIGINT", "device": "BIGINT", "stream": "BIGINT"
        }') AS a
    FROM parsed
),
counted AS (
    SELECT
        *,
        -- How many keys the columns reproduce.
        (phase IS NOT NULL)::INTEGER + (category IS NOT NULL)::INTEGER + (name IS NOT NULL)::INTEGER
        + (pid IS NOT NULL)::INTEGER + (tid IS NOT NULL)::INTEGER
        + coalesce(ts_ns IS NOT NULL OR is_whole_ns(ts_digits), FALSE)::INTEGER
        + coalesce(dur_ns IS NOT NULL OR is_whole_ns(dur_digits), FALSE)::INTEGER
        + (flow_id IS NOT NULL)::INTEGER
        + (flow_bind IS NOT NULL)::INTEGER + (scope IS NOT NULL)::INTEGER
        + (args IS NOT NULL)::INTEGER AS reproduced
    FROM fields
)
SELECT
    $trace_id, -1 - file_index::BIGINT, phase, category, name,
    coalesce(pid, thread_number(process)), coalesce(tid, thread_number(thread)),
    coalesce(ts_ns, digits_ns(ts_digits)), coalesce(dur_ns, digits_ns(dur_digits)),
    a.correlation,
    -- Kineto wrote "external id" until 2022; a struct cannot hold both spellings.
    coalesce(a."External id", CASE WHEN contains(args, '"external id"')
                              THEN TRY_CAST(json_extract_string(args, '$."external id"') AS BIGINT) END),
    a.device, a.stream, flow_id, flow_bind, scope, args,
    CASE WHEN reproduced = keys AND keys > 0 THEN NULL ELSE text END
FROM counted
