-- Percentiles, conditional sums, and numbers as text.

-- Whether a row belongs to the trace in the parameter `trace`; without it, any row does.
CREATE OR REPLACE MACRO is_asked(of_trace) AS of_trace = coalesce(getvariable('trace'), of_trace);

-- The value below which `per_cent` of the values lie: element n * per_cent // 100 of the n sorted ones,
-- counted from 0. The result is always a measured value, never an interpolated one. If n * per_cent is a
-- multiple of 100, quantile_disc takes the previous element; a little more than `per_cent` gives this one.
CREATE OR REPLACE MACRO percentile(measured, per_cent) AS
    list_aggregate(measured, 'quantile_disc', (per_cent + 1e-10) / 100);

-- The sum of the values for which the condition holds; 0 if it holds for none.
CREATE OR REPLACE MACRO sum_where(measured, condition) AS
    coalesce(sum(measured) FILTER (condition), 0)::BIGINT;

-- Nanoseconds as decimal microseconds: 1500 is 1.5, -500 is -0.5.
CREATE OR REPLACE MACRO microseconds(ns) AS
    CASE WHEN ns IS NULL THEN NULL
         WHEN ns % 1000 = 0 THEN (ns // 1000)::VARCHAR
         ELSE concat(CASE WHEN ns < 0 THEN '-' END, abs(ns) // 1000, '.',
                     rtrim(lpad((abs(ns) % 1000)::VARCHAR, 3, '0'), '0')) END;

-- Nanoseconds for people to read: 1760 is 1.76 us.
CREATE OR REPLACE MACRO duration_text(ns) AS
    CASE WHEN ns >= 1e9 THEN format('{:.3g} s', ns / 1e9) WHEN ns >= 1e6 THEN format('{:.3g} ms', ns / 1e6)
         WHEN ns >= 1e3 THEN format('{:.3g} us', ns / 1e3) ELSE format('{:.0f} ns', ns::DOUBLE) END;
