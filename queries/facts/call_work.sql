-- fact: The work of a call of an operator that its inputs alone do not tell.
-- Other files of this folder write the rows, each for some kinds of operators. See input_work for columns.
CREATE TABLE _scratch.call_work (
    trace_id INTEGER, event_id BIGINT, -- the operator's event
    type VARCHAR, is_matrix BOOLEAN, flops DOUBLE, read DOUBLE, written DOUBLE, weights DOUBLE,
    is_exact BOOLEAN
);
