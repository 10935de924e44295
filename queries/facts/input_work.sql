-- fact: The work of distinct inputs of an operator.
-- Other files of this folder write the rows, each for some kinds of operators.
CREATE TABLE _scratch.input_work (
    name VARCHAR, dims JSON, types JSON, concrete JSON,
    type VARCHAR, -- of the elements
    is_matrix BOOLEAN, flops DOUBLE, read DOUBLE, written DOUBLE,
    weights  DOUBLE, -- bytes read of the model's weights and caches, which no fusion leaves out
    is_exact BOOLEAN -- by shapes alone; else something is assumed
);
