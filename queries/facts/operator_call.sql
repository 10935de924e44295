-- fact: A call of such an operator, where the inputs were recorded.
-- of: operator_name
CREATE TABLE _scratch.operator_call AS
SELECT * EXCLUDE said, said[1] AS dims, said[2] AS types, said[3] AS concrete
FROM (
    -- Parses the arguments once, and only those of the operators in question.
    SELECT trace_id, event_id, name, pid, tid, start_ns, end_ns, dur_ns, o.kind,
           json_extract(args, ['$."Input Dims"', '$."Input type"', '$."Concrete Inputs"']) AS said
    FROM cpu_ops JOIN _scratch.operator_name AS o USING (name)
)
WHERE said[1] IS NOT NULL
