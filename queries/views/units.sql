-- Units of work, and what belongs to them.

-- A unit with its length.
CREATE OR REPLACE VIEW units AS
SELECT *, complete_ns - begin_ns AS dur_ns FROM unit;

-- The GPU ops launched in each unit: an op is in one unit of each level at most.
CREATE OR REPLACE VIEW unit_ops AS
SELECT g.trace_id, u.unit_id, u.level, u.kind, g.event_id
FROM gpu_ops AS g
JOIN (VALUES (1), (2), (3)) AS of_level(level) ON TRUE
ASOF JOIN unit AS u ON g.trace_id = u.trace_id AND g.pid = u.pid AND of_level.level = u.level
    AND g.launch_start_ns >= u.start_ns
WHERE g.launch_start_ns < u.end_ns;
