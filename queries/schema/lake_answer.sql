-- The rows of a question ($answer) in their order, with the run and rank of each ($beside).
SELECT ${beside}asked.* EXCLUDE lake_answer_row
FROM (SELECT row_number() OVER () AS lake_answer_row, * FROM ($answer)) AS asked
LEFT JOIN trace USING (trace_id)
ORDER BY lake_answer_row
