-- fact: A unit of work, one instance of what a process repeats: a step, a pass, a prefill, a decode, a layer.
-- needs: unit_launch, unit_frame, step_mark, server_step, thread_segment, lost_launches
-- by: units: tracekit/units finds them
-- It begins when the host begins it and the device has finished what was launched before, and is complete
-- when the host has left it and the device has finished what was launched so far. A process has at least one.
CREATE TABLE unit (
    trace_id INTEGER, unit_id BIGINT,
    parent_id BIGINT,     -- the unit that it is a part of; NULL: none
    level     INTEGER,    -- 1: outermost; at most 3
    kind      VARCHAR,    -- step, prefill, decode, mixed (both), pass, layer or iteration (a few launches)
    source    VARCHAR,    -- mark, server, frame, range, graph, sequence or single (nothing repeats)
    score     DOUBLE,     -- how regular the units found with it are: 1 if equal
    -- How its beginning is known: mark, whole (the loop has whole cycles from its first launch on), loop edge
    -- (other work comes before or after), gap (the host's longest) or none.
    phase_source VARCHAR,
    name VARCHAR, pid BIGINT,
    tid       BIGINT,     -- the thread of its first launch
    start_ns  BIGINT,     -- when the host begins it
    end_ns    BIGINT,     -- when the host has left it
    begin_ns  BIGINT,     -- as above
    complete_ns BIGINT,   -- as above
    ordinal   BIGINT,     -- its place among the units found with it, from 1
    group_id  BIGINT,     -- units of a process that do the same work have the same
    is_whole  BOOLEAN,    -- the recording, of the device too, does not cut it off
    is_odd    BOOLEAN,    -- it does other work than most of those found with it
    is_cold   BOOLEAN,    -- first-call work takes a large part of it
    is_median BOOLEAN,    -- of the units of its level, kind and group, the one of median length
    launches  BIGINT,     -- by the host; operators, in a trace without GPU ops
    gpu_ops   BIGINT,     -- launched in it
    gpu_ns    BIGINT,     -- their summed durations
    requests  BIGINT,     -- of a server's step; NULL of this and the next: unknown
    tokens    BIGINT      -- read and generated
);
