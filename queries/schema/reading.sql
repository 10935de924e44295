-- Macros that turn JSON text into columns. Only reading uses them.

-- The value of a JSON string, or NULL for any other value. The parser is asked only where there
-- is an escape.
CREATE OR REPLACE TEMP MACRO json_text(j) AS
    CASE WHEN left(j, 1) <> '"' THEN NULL
         WHEN contains(j, '\') THEN json_extract_string(j, '$')
         ELSE j[2:-2] END;

-- An integer, also one that was written as text.
CREATE OR REPLACE TEMP MACRO json_integer(j) AS TRY_CAST(trim(j, '"') AS BIGINT);

-- Whether `thread_number` keeps all of the value.
CREATE OR REPLACE TEMP MACRO is_integer(j) AS
    coalesce(left(j, 1) <> '"' AND NOT contains(j, '.') AND TRY_CAST(j AS BIGINT) IS NOT NULL, FALSE);

-- pid or tid. Text gets a negative number of its own, so that it is a process or thread too.
CREATE OR REPLACE TEMP MACRO thread_number(j) AS
    coalesce(json_integer(j), CASE WHEN j IS NOT NULL THEN -1 - (hash(j) >> 24)::BIGINT END);

-- The digits of a number of microseconds. `j` has passed through a double, exact to a nanosecond
-- up to 2^43 us; beyond it, a decimal is read again from the event's text.
CREATE OR REPLACE TEMP MACRO exact_decimal(j, key, text) AS
    CASE WHEN length(j) < 17 OR NOT (contains(j, '.') OR contains(j, 'e')) THEN j
         WHEN abs(TRY_CAST(j AS DOUBLE)) < 8796093022208 AND NOT contains(j, 'e') THEN j
         ELSE coalesce(
             nullif(regexp_extract(text, concat('"', key, '"\s*:\s*("?-?[0-9]+\.?[0-9]*"?)\s*[,}]'), 1), ''),
             j) END;

-- Microseconds to nanoseconds, exactly; without 128-bit arithmetic for all that Kineto writes. What
-- 64 bits cannot hold is NULL.
CREATE OR REPLACE TEMP MACRO thousandfold(n) AS
    CASE WHEN n BETWEEN -9223372036854775 AND 9223372036854775 THEN n * 1000 END;
CREATE OR REPLACE TEMP MACRO to_ns(j) AS
    CASE WHEN j IS NULL THEN NULL
         WHEN NOT contains(j, '.') THEN thousandfold(TRY_CAST(trim(j, '"') AS BIGINT))
         WHEN length(j) - instr(j, '.') = 3 AND left(j, 1) <> '"' AND NOT contains(j, 'e')
             THEN TRY_CAST(replace(j, '.', '') AS BIGINT)
         WHEN length(j) - instr(j, '.') < 3 AND length(j) <= 16 AND left(j, 1) <> '"' AND NOT contains(j, 'e')
             THEN TRY_CAST(replace(j, '.', '') AS BIGINT) * CASE length(j) - instr(j, '.') WHEN 2 THEN 10 ELSE 100 END
         ELSE TRY_CAST(round(TRY_CAST(trim(j, '"') AS DECIMAL(28, 9)) * 1000) AS BIGINT) END;

-- Whether `to_ns` kept all of the number.
CREATE OR REPLACE TEMP MACRO whole_ns(j) AS
    coalesce(left(j, 1) <> '"' AND NOT contains(j, 'e')
             AND (NOT contains(j, '.') OR length(j) - instr(j, '.') <= 3), FALSE);
