-- Percentiles, conditional sums, and nanoseconds as text.

-- The value below which `per_cent` of the values lie: element n * per_cent // 100 of the n sorted ones,
-- counted from 0. The result is always a measured value, never an interpolated one. Where n * per_cent is a
-- multiple of 100, quantile_disc takes the element before; a little more than `per_cent` gives this one.
CREATE OR REPLACE MACRO percentile(measured, per_cent) AS
    list_aggregate(measured, 'quantile_disc', (per_cent + 1e-10) / 100);

-- The sum of the values for which the condition holds; 0 where it holds for none.
CREATE OR REPLACE MACRO sum_where(measured, condition) AS
    coalesce(sum(measured) FILTER (condition), 0)::BIGINT;

-- Nanoseconds as decimal microseconds: 1500 is 1.5, -500 is -0.5.
CREATE OR REPLACE MACRO microseconds(ns) AS
    CASE WHEN ns IS NULL THEN NULL
         WHEN ns % 1000 = 0 THEN (ns // 1000)::VARCHAR
         ELSE concat(CASE WHEN ns < 0 THEN '-' END, abs(ns) // 1000, '.',
                     rtrim(lpad((abs(ns) % 1000)::VARCHAR, 3, '0'), '0')) END;
