-- fact: What the recorder left out of a trace, or added to it: a finding of the question health.
-- Other files of this folder write the rows. tracekit/verdict/recorder.py says what a verdict makes of each.
CREATE TABLE recorder_finding (
    trace_id INTEGER, -- the trace
    code     VARCHAR, -- the kind of finding
    severity VARCHAR, -- error, warning or info
    count    BIGINT,
    message  VARCHAR, -- what was found, and what it means
    time_ns  BIGINT,  -- the time that it concerns; NULL: not known
    event_id BIGINT   -- the event that it is about; NULL: several
);
