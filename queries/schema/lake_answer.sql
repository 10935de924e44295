-- The rows of a question ($answer) in their order, with the run and rank of each ($beside).
SELECT ${beside}asked.* EXCLUDE place
FROM (SELECT row_number() OVER () AS place, * FROM ($answer)) AS asked LEFT JOIN trace USING (trace_id)
ORDER BY place
