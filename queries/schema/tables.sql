-- The tables that ingest writes. Times are integer nanoseconds, sizes are bytes.

-- Which tables and views these are, by number; no row until they are whole.
CREATE TABLE IF NOT EXISTS tracekit (format INTEGER NOT NULL);

-- What a load that can be resumed was begun on (tracekit/ingest/resume.py); stays when it is finished.
CREATE TABLE IF NOT EXISTS loading (begun_on JSON NOT NULL);

-- A trace file. Flags are NULL where the trace does not say.
CREATE TABLE IF NOT EXISTS trace (
    trace_id        INTEGER PRIMARY KEY,
    path            VARCHAR NOT NULL,   -- as given when it was loaded
    file_bytes      BIGINT NOT NULL,    -- as stored, compressed or not
    sha256          VARCHAR NOT NULL,   -- of the file as stored
    form            VARCHAR NOT NULL,   -- 'object' ({"traceEvents": [...]}) or 'array' ([...])
    rank            BIGINT,             -- distributedInfo.rank
    world_size      BIGINT,             -- distributedInfo.world_size
    host            VARCHAR,
    base_time_ns    BIGINT,             -- baseTimeNanoseconds: what every ts counts from
    record_shapes   BOOLEAN,
    with_stack      BOOLEAN,
    profile_memory  BOOLEAN,
    with_flops      BOOLEAN,
    with_modules    BOOLEAN,
    metadata        JSON NOT NULL,      -- every top-level key but traceEvents
    events          BIGINT NOT NULL,    -- rows of `event`
    rejected        BIGINT NOT NULL,    -- rows of `rejected`
    damage          VARCHAR             -- why the end is missing, NULL when the file is whole
);

-- A device that the trace lists (deviceProperties).
CREATE TABLE IF NOT EXISTS device (
    trace_id            INTEGER NOT NULL,
    device_id           BIGINT,
    name                VARCHAR,
    memory_bytes        BIGINT,
    sm_count            BIGINT,
    compute_capability  VARCHAR,
    properties          JSON
);

-- What events say in words. Few labels, many events.
CREATE TABLE IF NOT EXISTS label (
    trace_id     INTEGER NOT NULL,
    label_id     BIGINT,    -- of one trace; two may say the same
    phase        VARCHAR,   -- ph: X complete, M metadata, s/f flow, i instant, C counter ...
    category     VARCHAR,   -- cat, as spelled in the file
    name         VARCHAR,
    flow_bind    VARCHAR,   -- bp
    scope        VARCHAR    -- s
);

-- A trace event but for its words: all of them.
CREATE TABLE IF NOT EXISTS event_row (
    trace_id     INTEGER NOT NULL,
    event_id     BIGINT,    -- its place in the file, from 0
    label_id     BIGINT,
    pid          BIGINT,    -- a textual pid or tid is a negative number made from the text
    tid          BIGINT,
    ts_ns        BIGINT,    -- since trace.base_time_ns (the Unix epoch where that is NULL)
    dur_ns       BIGINT,
    correlation  BIGINT,    -- args.correlation: joins a GPU op with the call that launched it
    external_id  BIGINT,    -- args."External id"
    device_id    BIGINT,    -- args.device
    stream       BIGINT,    -- args.stream
    flow_id      BIGINT,    -- id
    args         JSON USING COMPRESSION zstd,
    raw          JSON USING COMPRESSION zstd  -- the event's text, only where the columns cannot say all of it
);

-- A trace event: all of them, as in the file.
-- https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU (Trace Event Format)
CREATE OR REPLACE VIEW event AS
SELECT e.trace_id, event_id, phase, category, name, pid, tid, ts_ns, dur_ns, correlation, external_id,
       device_id, stream,
       flow_id, flow_bind, scope, args, raw
FROM event_row AS e JOIN label USING (label_id);

-- A stretch of the events array that is no event; kept, so that nothing is lost.
CREATE TABLE IF NOT EXISTS rejected (
    trace_id     INTEGER NOT NULL,
    byte_offset  BIGINT NOT NULL,   -- in the decompressed trace
    reason       VARCHAR NOT NULL,
    text         VARCHAR NOT NULL
);

-- What devices could do at most: tracekit/hardware.toml, and before it the user's own file.
CREATE TABLE IF NOT EXISTS hardware (
    place               INTEGER NOT NULL,   -- the first entry that matches counts
    name                VARCHAR NOT NULL,
    pattern             VARCHAR NOT NULL,   -- a regular expression that the device's name matches
    memory_bytes_per_s  DOUBLE,
    flop_per_s          MAP(VARCHAR, DOUBLE) NOT NULL,   -- dense, by format: bf16, fp16, tf32, fp32 ...
    source              VARCHAR NOT NULL,
    note                VARCHAR
);
