-- The tables that ingest writes. Times are integer nanoseconds, sizes are bytes.

-- The format number of these tables and views; there is no row until they are complete.
CREATE TABLE IF NOT EXISTS tracekit (format INTEGER NOT NULL);

-- The input that a resumable load began with (tracekit/ingest/load.py); the row stays after the load.
CREATE TABLE IF NOT EXISTS loading (begun_on JSON NOT NULL);

-- A trace file. Flags are NULL if unknown.
CREATE TABLE IF NOT EXISTS trace (
    trace_id        INTEGER PRIMARY KEY,
    path            VARCHAR NOT NULL,   -- as given when it was loaded
    file_bytes      BIGINT NOT NULL,    -- as stored, compressed or not
    sha256          VARCHAR NOT NULL,   -- of the file as stored
    form            VARCHAR NOT NULL,   -- 'object' ({"traceEvents": [...]}) or 'array' ([...])
    rank            BIGINT,             -- distributedInfo.rank
    world_size      BIGINT,             -- distributedInfo.world_size
    host            VARCHAR,
    base_time_ns    BIGINT,             -- baseTimeNanoseconds: every ts counts from it
    profiler        VARCHAR NOT NULL,   -- kineto, nsys, rocprofv3, jax, torch_npu ...
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

-- The texts of events, each combination stored once: there are few labels, but many events.
CREATE TABLE IF NOT EXISTS label (
    trace_id     INTEGER NOT NULL,
    label_id     BIGINT,    -- belongs to one trace; two labels may have the same texts
    phase        VARCHAR,   -- ph: X complete, M metadata, s/f flow, i instant, C counter ...
    category     VARCHAR,   -- cat, as spelled in the file
    name         VARCHAR,
    flow_bind    VARCHAR,   -- bp
    scope        VARCHAR    -- s
);

-- All trace events, without the texts that `label` holds.
CREATE TABLE IF NOT EXISTS event_row (
    trace_id     INTEGER NOT NULL,
    event_id     BIGINT,    -- its position in the file, from 0
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
    raw          JSON USING COMPRESSION zstd  -- the event's text, only if the columns cannot hold all of it
);

-- All trace events, as in the file.
-- https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU (Trace Event Format)
CREATE OR REPLACE VIEW event AS
SELECT e.trace_id, event_id, phase, category, name, pid, tid, ts_ns, dur_ns, correlation, external_id,
       device_id, stream,
       flow_id, flow_bind, scope, args, raw
FROM event_row AS e JOIN label USING (label_id);

-- Text in the events array that is not a valid event, kept so that nothing is lost.
CREATE TABLE IF NOT EXISTS rejected (
    trace_id     INTEGER NOT NULL,
    byte_offset  BIGINT NOT NULL,   -- in the decompressed trace
    reason       VARCHAR NOT NULL,
    text         VARCHAR NOT NULL,
    event_id     BIGINT NOT NULL    -- the event that follows it
);

-- Bytes of the file that the tables above do not hold in full, for export: an event in whose strings
-- characters were replaced by U+FFFD (half of a surrogate pair, bytes that are not UTF-8), or an element of
-- the events array that is not an event.
CREATE TABLE IF NOT EXISTS verbatim (
    trace_id     INTEGER NOT NULL,
    event_id     BIGINT,            -- the event, or the one that follows an element; NULL: the metadata
    byte_offset  BIGINT NOT NULL,   -- in the decompressed trace
    is_event     BOOLEAN NOT NULL,
    text         BLOB NOT NULL
);

-- What a program said of the nodes of its graphs when it captured them, in a file beside the trace or given
-- with it (torch.cuda.graph_annotations).
CREATE TABLE IF NOT EXISTS graph_annotation (
    trace_id     INTEGER NOT NULL,  -- the trace of the replays
    node_id      UBIGINT NOT NULL,  -- the node, as `graph_node_id` gives it
    annotation   JSON NOT NULL,     -- an object
    path         VARCHAR NOT NULL   -- the file
);

-- The peak rates of devices: entries of the user's own file first, then of tracekit/hardware.toml.
CREATE TABLE IF NOT EXISTS hardware (
    place               INTEGER NOT NULL,   -- the first entry that matches applies
    name                VARCHAR NOT NULL,
    pattern             VARCHAR NOT NULL,   -- a regular expression that the device's name matches
    memory_bytes_per_s  DOUBLE,
    host_link_bytes_per_s DOUBLE,               -- one direction of its link to the host, as specified
    link_bytes_per_s DOUBLE,                    -- one direction of its links to other devices, together
    cache_bytes         BIGINT,             -- the last cache before the memory; NULL: unknown
    clock_mhz           DOUBLE,             -- the clock at which its peaks are stated; NULL: unknown
    flop_per_s          MAP(VARCHAR, DOUBLE) NOT NULL,   -- dense, by format: bf16, fp16, tf32, fp32 ...
    source              VARCHAR NOT NULL,
    note                VARCHAR
);

-- The verdict on a window of a trace, as `tracekit analyze` gives it. Loading into a file writes this table
-- and the next four, unless it is told not to judge.
CREATE TABLE IF NOT EXISTS verdict (
    trace_id    INTEGER NOT NULL,
    kind        VARCHAR NOT NULL,   -- of the window: gpu_active, host_active, step or trace
    name        VARCHAR NOT NULL,   -- of the window, for people to read
    start_ns    BIGINT NOT NULL,
    end_ns      BIGINT NOT NULL,
    is_main     BOOLEAN NOT NULL,   -- the window judged by default; for others, confidence, sentence,
                                    -- margin and savings are NULL
    group_id    BIGINT,             -- of a step: those that do the same work have the same
    regime      VARCHAR NOT NULL,   -- overhead-bound, compute-bound or unknown
    bottleneck  VARCHAR,            -- the cause whose removal gains most
    margin      DOUBLE,             -- fraction of the window: positive is compute-bound
    confidence  VARCHAR,            -- high, medium, low or none
    sentence    VARCHAR,            -- the first reason
    saves_ns    BIGINT,             -- the saving of the first advice that is not about one-offs
    judged_by   VARCHAR,            -- a digest of the rules that judged; with other rules, it is judged again
    analysis    JSON                -- all of it, as `tracekit analyze --json` prints it
);

-- A number that a verdict rests on.
CREATE TABLE IF NOT EXISTS evidence (
    trace_id     INTEGER NOT NULL,
    kind         VARCHAR NOT NULL,   -- of the window
    window_name  VARCHAR NOT NULL,
    name         VARCHAR NOT NULL,   -- its path in the JSON: gpu.busy_ns, idle.causes.python, gains.host ...
    value        DOUBLE NOT NULL,
    unit         VARCHAR NOT NULL,   -- ns, count or fraction
    denominator  VARCHAR,            -- of a fraction
    scope        VARCHAR NOT NULL,   -- window or trace: the subject of the number
    question     VARCHAR NOT NULL    -- the question that defines it, or replay
);

-- An event that happened once, or took far longer than similar events, and is not judged.
CREATE TABLE IF NOT EXISTS one_off (
    trace_id   INTEGER NOT NULL,
    start_ns   BIGINT NOT NULL,
    dur_ns     BIGINT NOT NULL,
    usual_ns   BIGINT NOT NULL,    -- the typical duration of similar events
    excess_ns  BIGINT NOT NULL,    -- beyond the typical duration
    kind       VARCHAR NOT NULL,
    side       VARCHAR NOT NULL,   -- host or device: which takes longer
    cause      VARCHAR NOT NULL,
    name       VARCHAR,
    place      VARCHAR,            -- the Python line, module or operator
    event_id   BIGINT,             -- the slice or kernel; NULL: none was recorded
    pid        BIGINT,
    tid        BIGINT,
    calls      VARCHAR             -- of a step, range or start: the names in which its cause takes most time
);

-- A stretch in which a thread of the host waits, and for what. The replay's graph infers them
-- (tracekit/replay/graph/waits.py); docs/explanation/replay.md says how sure each is.
CREATE TABLE IF NOT EXISTS host_wait (
    trace_id    INTEGER NOT NULL,
    event_id    BIGINT,             -- the call, or the innermost slice; NULL: none was recorded
    pid         BIGINT NOT NULL,
    tid         BIGINT NOT NULL,
    start_ns    BIGINT NOT NULL,
    end_ns      BIGINT NOT NULL,    -- the thread works again, though a call may take longer
    waits_for   VARCHAR NOT NULL,   -- device op, loader, other thread, lock or timer, other rank or unknown
    awaited_id  BIGINT,             -- the GPU op; NULL: none, or it was not recorded
    released_ns BIGINT,             -- when the op had ended (for a full queue: begun), or the other was done;
                                    -- NULL: the trace does not tell
    known_from  VARCHAR NOT NULL    -- named call, times, blocking copy, full queue, held launch, lost graph,
                                    -- long fetch, handover, thread wait, remote call, unrecorded, silence,
                                    -- polling or message
);

-- A change to the program, and what it would save alone.
CREATE TABLE IF NOT EXISTS advice (
    trace_id  INTEGER NOT NULL,
    number    INTEGER NOT NULL,   -- its position in the list, from 1
    remedy    VARCHAR NOT NULL,
    title     VARCHAR NOT NULL,
    cause     VARCHAR NOT NULL,
    place     VARCHAR,            -- the Python line, module, operator or kernel; NULL: the run as a whole
    detail    VARCHAR,
    count     BIGINT NOT NULL,    -- calls, GPU ops or events that it changes
    saves_ns  BIGINT NOT NULL,
    share     DOUBLE,             -- of the window without one-offs; NULL: it is saved once
    once      BOOLEAN NOT NULL,   -- it is about one-offs
    effort    VARCHAR NOT NULL,
    change    VARCHAR             -- as `tracekit whatif` takes it
);
