-- Macros that turn JSON text into columns, and a table for numbering. Only reading uses them.

-- The value of a JSON string, or NULL for any other value. The parser is asked only where there
-- is an escape.
CREATE OR REPLACE TEMP MACRO json_text(j) AS
    CASE WHEN NOT starts_with(j, '"') THEN NULL
         WHEN contains(j, '\') THEN json_extract_string(j, '$')
         ELSE replace(j, '"', '') END;

-- A JSON integer that fits, or NULL for any other value.
CREATE OR REPLACE TEMP MACRO json_integer(j) AS
    CASE WHEN NOT contains(j, '.') AND NOT contains(j, 'e') THEN TRY_CAST(j AS BIGINT) END;

-- pid or tid that is no such integer. Text gets a negative number of its own, so that it is a
-- process or thread too.
CREATE OR REPLACE TEMP MACRO thread_number(j) AS
    CASE WHEN j IS NOT NULL THEN coalesce(TRY_CAST(trim(j, '"') AS BIGINT), -1 - (hash(j) >> 24)::BIGINT) END;

-- Microseconds to nanoseconds, exactly, wherever a double says all that the text says: with three
-- decimals, a double is exact up to 2^43 us; a whole number up to 2^53.
CREATE OR REPLACE TEMP MACRO double_ns(us) AS trunc(us)::BIGINT * 1000 + round((us - trunc(us)) * 1000)::BIGINT;
CREATE OR REPLACE TEMP MACRO plain_ns(j, us) AS
    CASE WHEN abs(us) < CASE WHEN contains(j, '.') THEN 8796093022208 ELSE 9007199254740992 END
              AND double_ns(us) / 1000::DOUBLE = us THEN double_ns(us) END;

-- The digits of any other number of microseconds: one of many digits, or text. A decimal has passed
-- through a double: its digits are read again in the event's text. Where those found there are not
-- its own, its value counts as text, which no column reproduces.
CREATE OR REPLACE TEMP MACRO digits_in(text, key) AS
    regexp_extract(text, concat('"', key, '"\s*:\s*("?-?[0-9]+\.?[0-9]*"?)\s*[,}]'), 1);
CREATE OR REPLACE TEMP MACRO exact_digits(j, key, text) AS
    CASE WHEN NOT (contains(j, '.') OR contains(j, 'e')) THEN j
         WHEN TRY_CAST(trim(digits_in(text, key), '"') AS DOUBLE) = TRY_CAST(trim(j, '"') AS DOUBLE) THEN digits_in(text, key)
         ELSE concat('"', trim(j, '"'), '"') END;

-- Such digits as nanoseconds; a fraction of one is rounded, what 64 bits cannot hold is NULL.
CREATE OR REPLACE TEMP MACRO digits_ns(digits) AS
    CASE WHEN abs(TRY_CAST(trim(digits, '"') AS DOUBLE)) < 1e16
         THEN TRY_CAST(round(TRY_CAST(trim(digits, '"') AS DECIMAL(38, 9)) * 1000) AS BIGINT) END;

-- Whether `digits_ns` keeps all of the number.
CREATE OR REPLACE TEMP MACRO is_whole_ns(digits) AS
    digits_ns(digits) IS NOT NULL AND NOT starts_with(digits, '"')
    AND (NOT contains(digits, '.') OR length(digits) - instr(digits, '.') <= 3);

CREATE TEMP TABLE IF NOT EXISTS slice_place (slice BIGINT, first_row BIGINT, before BIGINT);
