-- Units of work, and what belongs to them.

-- How lengths change over a run: settling, if the first third of them is longer than the second and than all
-- of the last; growing, the other way round; else steady. NULL: they are too few. (A lambda binds the list
-- once, a macro's parameter wherever it stands.)
CREATE OR REPLACE MACRO trend_of(lengths) AS list_transform([lengths], lambda all_of: CASE
    WHEN len(all_of) < thresholds().unit_trend_least THEN NULL
    WHEN falls(all_of) THEN 'settling' WHEN falls(list_reverse(all_of)) THEN 'growing'
    ELSE 'steady' END)[1];

-- Whether the first third of some lengths is longer than the second and than all of the last.
CREATE OR REPLACE MACRO falls(lengths) AS list_transform([lengths], lambda all_of:
    list_median(all_of[:len(all_of) // 3]) > thresholds().unit_trend_ratio
        * greatest(list_median(all_of[len(all_of) // 3 + 1:len(all_of) - len(all_of) // 3]),
                   list_max(all_of[-(len(all_of) // 3):])))[1];

-- The place of the first length of a settled run: after the last one that is beyond the last third.
CREATE OR REPLACE MACRO settled_from(lengths) AS
    if(trend_of(lengths) = 'settling', 1 + list_max(list_filter(range(1, len(lengths) + 1), lambda place:
        lengths[place] > thresholds().unit_trend_ratio * list_median(lengths[-(len(lengths) // 3):]))), 1);

-- A unit with its length.
CREATE OR REPLACE VIEW units AS
SELECT *, complete_ns - begin_ns AS dur_ns FROM unit;

-- The traces in which most GPU ops have no launch: their units are on the device's clock.
CREATE OR REPLACE VIEW unlaunched_traces AS
SELECT trace_id FROM gpu_ops GROUP BY trace_id HAVING 2 * count(launch_id) < count(*);

-- The steps of a run, without the loop that stands for one.
CREATE OR REPLACE VIEW steps AS
SELECT * EXCLUDE (iterations) FROM judged_steps WHERE iterations IS NULL;

-- The GPU ops launched in each unit: an op is in one unit of each level at most.
CREATE OR REPLACE VIEW unit_ops AS
SELECT g.trace_id, u.unit_id, u.level, u.kind, g.event_id
FROM gpu_ops AS g
JOIN (VALUES (1), (2), (3)) AS of_level(level) ON TRUE
ASOF JOIN unit AS u ON g.trace_id = u.trace_id AND g.pid = u.pid AND of_level.level = u.level
    AND g.launch_start_ns >= u.start_ns
WHERE g.launch_start_ns < u.end_ns;
