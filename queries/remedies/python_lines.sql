-- question: Which functions of the program take the host's time themselves, outside operators and calls?
-- title: Do less in Python in this function
-- causes: python
-- effort: medium
-- needs: Work that can be done once, outside the loop, for many elements at a time, or in other processes.
-- caveat: An upper bound: all of the function's own time gone. It includes extensions that record no
--     operator, and what recording stacks costs.
-- blind: no_stacks
-- before:
--     def normalize(images):
--         return [(image - MEAN) / STD for image in images]
-- after:
--     def normalize(images):                        # a tensor of all images
--         return (images - MEAN) / STD
-- risks: Moving work into worker processes or onto the device does not make it disappear: it costs there.
-- check: tracekit query python_time after.json; python -m cProfile SCRIPT
-- sources: https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
--     https://docs.python.org/3/library/profile.html
-- params trace
-- columns trace_id
-- column place (text): the function, by its file and first line
-- column detail (text): its own time in a call, and how many calls there are
-- column target (text): host: a stretch of its own work
-- column event_id (id): the call of the function
-- columns pid, tid, start_ns, dur_ns, factor
-- doubts: no_stacks
-- A function's own work: its frame, ranges that it annotates, and what it calls of Python's library and
-- built-in functions; those of PyTorch count as PyTorch's. Only functions that could fill a noticeable share.
WITH RECURSIVE span AS (
    SELECT s.trace_id, coalesce(any_value(w.end_ns - w.start_ns), any_value(s.end_ns - s.start_ns)) AS ns
    FROM trace_span AS s
    LEFT JOIN (FROM windows JOIN main_device USING (trace_id, device_id) WHERE kind = 'gpu_active') AS w
        USING (trace_id)
    WHERE s.trace_id = coalesce(getvariable('trace'), s.trace_id) GROUP BY s.trace_id
),
frame AS (
    SELECT trace_id, event_id, name FROM slices
    SEMI JOIN (SELECT label_id FROM slice_label WHERE is_program_line(traits)
        AND activity = 'python' AND NOT has(traits, 'thread_wait')) USING (label_id)
    WHERE trace_id = coalesce(getvariable('trace'), trace_id)
),
beneath AS (
    SELECT s.trace_id, s.event_id, h.parent_id, h.self_ns FROM slices AS s
    SEMI JOIN (SELECT label_id FROM slice_label WHERE activity = 'python' AND (kind = 'annotation'
        OR kind = 'python' AND NOT is_program_line(traits) AND NOT has(traits, 'thread_wait')
            AND NOT has(traits, 'of_torch')))
        USING (label_id)
    JOIN host_slice AS h ON s.trace_id = h.trace_id AND s.event_id = h.event_id
    WHERE s.trace_id IN (SELECT trace_id FROM frame)
),
climbing AS (
    SELECT trace_id, event_id, self_ns, parent_id AS owner_id FROM beneath
    UNION ALL
    SELECT c.trace_id, c.event_id, c.self_ns, b.parent_id
    FROM climbing AS c JOIN beneath AS b ON c.trace_id = b.trace_id AND c.owner_id = b.event_id
),
work AS (
    SELECT trace_id, event_id, event_id AS frame_id, self_ns
    FROM host_slice SEMI JOIN frame USING (trace_id, event_id)
    UNION ALL
    SELECT trace_id, event_id, owner_id, self_ns FROM climbing
),
owned AS (
    SELECT w.trace_id, w.event_id, frame_id, name, self_ns,
           sum(self_ns) OVER here AS own_ns, count(*) FILTER (w.event_id = frame_id) OVER here AS calls
    FROM work AS w JOIN frame AS f ON w.trace_id = f.trace_id AND w.frame_id = f.event_id
    WINDOW here AS (PARTITION BY w.trace_id, name)
),
long AS (
    SELECT o.* FROM owned AS o JOIN span USING (trace_id) WHERE own_ns >= thresholds().long_share * ns
)
SELECT s.trace_id, o.name AS place,
       format('{:.0f} us of its own a call', own_ns / calls / 1e3) AS detail,
       'host' AS target, frame_id AS event_id, pid, tid, start_ns, end_ns - start_ns AS dur_ns, 0 AS factor
FROM host_segment AS s JOIN long AS o ON s.trace_id = o.trace_id AND s.event_id = o.event_id
WHERE activity = 'python'
ORDER BY s.trace_id, place, start_ns
