-- The latest end of a part ($part) whose events ($events) take at most `most_bytes` as text; NULL: none does.
SELECT max(key_ns)
FROM (
    SELECT key_ns, sum(octet_length(text) + 2) OVER (ORDER BY key_ns) AS bytes
    FROM ($part) JOIN ($events) USING (event_id)
)
WHERE bytes <= getvariable('most_bytes')
