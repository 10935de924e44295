-- fact: A gap that the recorder left in a trace, or an effect of it: a finding of the question health.
-- Other files of this folder write the rows. tracekit/verdict/recorder.py has their effects on verdicts.
CREATE TABLE recorder_finding (
    trace_id INTEGER, code VARCHAR, -- the kind of finding
    severity VARCHAR, -- error, warning or info
    count    BIGINT,
    message  VARCHAR, -- the finding, and its meaning
    time_ns  BIGINT,  -- the time that it concerns; NULL: not known
    event_id BIGINT   -- the affected event; NULL: several
);
