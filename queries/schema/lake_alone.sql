-- A lake stores facts about each trace alone: traces are not compared.
CREATE OR REPLACE VIEW jobs AS SELECT trace_id, trace_id AS job FROM trace;
