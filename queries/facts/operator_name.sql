-- fact: The name of an operator whose work follows from its inputs.
-- needs: slice_label
-- when: kind = 'cpu_op' AND work IS NOT NULL
CREATE TABLE scratch.operator_name AS
SELECT name, work AS kind, operand_count(work, traits) AS operands_read, settings_of(name) AS setting
FROM (SELECT DISTINCT name, work, traits FROM slice_label WHERE kind = 'cpu_op' AND work IS NOT NULL)
