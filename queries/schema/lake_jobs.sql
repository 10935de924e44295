-- In a lake, each run is a job. A trace without a rank is not compared with others.
CREATE OR REPLACE VIEW jobs AS
SELECT trace_id, CASE WHEN rank IS NULL THEN trace_id
    ELSE min(trace_id) OVER (PARTITION BY run, world_size, rank IS NULL) END AS job
FROM trace;
