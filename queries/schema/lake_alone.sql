-- What a lake stores is about each trace alone: no trace is compared with another.
CREATE OR REPLACE VIEW jobs AS SELECT trace_id, trace_id AS job FROM trace;
