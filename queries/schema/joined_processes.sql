-- The processes of the trace in the variable `trace`, `number` of `traces`, renumbered apart from others'.
SELECT pid, getvariable('traces') * row_number() OVER (ORDER BY pid) + getvariable('number') AS new_pid
FROM (SELECT DISTINCT pid FROM event WHERE trace_id = getvariable('trace') AND pid IS NOT NULL)
