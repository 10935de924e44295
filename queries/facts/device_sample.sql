-- fact: A sample of a device's clock, power or temperature, by a counter whose name says so.
-- of: gpu_ops
-- when: (SELECT count(*) > 0 FROM label WHERE phase = 'C')
-- The counter is the sample's series; in PyTorch's JSON, whose series have no name ('/' reads them), its
-- event. Its process is the device: a number, or "GPU 0 Counters". Where other devices have such counters
-- than those with GPU ops, the numbers may differ (CUDA_VISIBLE_DEVICES renumbers devices): no rows then.
-- A clock is in MHz or in Hz, as its size tells: Nsight Systems exports Hz under a name with MHz. What is
-- neither (such as 0: not measured) is left out.
CREATE TABLE device_sample (
    trace_id INTEGER, event_id BIGINT,
    device_id BIGINT,
    measure  VARCHAR, -- clock, power or temperature
    at_ns    BIGINT,
    value    DOUBLE,  -- MHz, W or degrees Celsius
    is_busy  BOOLEAN  -- the device is running an op
);
WITH counted AS (
    SELECT e.trace_id, e.event_id, e.ts_ns, e.pid, e.raw, e.args, l.name, unnest(json_keys(e.args)) AS series
    FROM event_row AS e JOIN label AS l USING (label_id) WHERE l.phase = 'C' AND e.ts_ns IS NOT NULL
),
called AS (SELECT *, CASE series WHEN '' THEN name ELSE series END AS word FROM counted),
known AS (SELECT word, sampled_measure(word) AS measure FROM (SELECT DISTINCT word FROM called)),
sampled AS (
    SELECT trace_id, event_id, measure, ts_ns AS at_ns,
           TRY_CAST(args->>if(series = '', '/', series) AS DOUBLE) AS read,
           CASE WHEN pid >= 0 THEN pid
               ELSE TRY_CAST(regexp_extract(raw->>'pid', '^GPU (\d+) Counters$', 1) AS BIGINT)
               END AS device_id
    FROM called JOIN known USING (word) WHERE measure IS NOT NULL
),
measured AS (
    SELECT * EXCLUDE read,
           CASE WHEN measure <> 'clock' THEN read
               WHEN read BETWEEN thresholds().least_mhz AND thresholds().most_mhz THEN read
               WHEN read / 1e6 BETWEEN thresholds().least_mhz AND thresholds().most_mhz THEN read / 1e6
               END AS value
    FROM sampled
),
reached AS (
    SELECT trace_id, device_id, start_ns,
           max(end_ns) OVER (PARTITION BY trace_id, device_id ORDER BY start_ns) AS end_ns
    FROM gpu_ops
),
used AS (SELECT trace_id, list_sort(list(DISTINCT device_id)) AS devices FROM gpu_ops GROUP BY trace_id),
seen AS (SELECT trace_id, list_sort(list(DISTINCT device_id)) AS devices FROM measured GROUP BY trace_id)
SELECT m.trace_id, m.event_id, m.device_id, m.measure, m.at_ns, m.value, coalesce(r.end_ns > m.at_ns, FALSE)
FROM (FROM measured SEMI JOIN (FROM used JOIN seen USING (trace_id, devices)) USING (trace_id)
    WHERE value IS NOT NULL) AS m
ASOF LEFT JOIN reached AS r
    ON m.trace_id = r.trace_id AND m.device_id = r.device_id AND m.at_ns >= r.start_ns
