-- The processes of the trace in the variable `trace`, with numbers that no other trace in the file has: it is
-- trace `number` of `traces`.
SELECT pid, getvariable('traces') * row_number() OVER (ORDER BY pid) + getvariable('number') AS new_pid
FROM (SELECT DISTINCT pid FROM event WHERE trace_id = getvariable('trace') AND pid IS NOT NULL)
