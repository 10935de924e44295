-- question: Which functions of the program take the host's time themselves, outside operators and calls?
-- since: 0.1
-- title: Do less in Python in these functions
-- causes: python
-- effort: medium
-- needs: Work that can be done once, outside the loop, for many elements at a time, or in other processes.
-- caveat: An upper bound: it removes all of the function's own time, which includes extensions that record no
--     operator, and the cost of recording stacks.
-- blind: no_stacks
-- before:
--     def normalize(images):
--         return [(image - MEAN) / STD for image in images]
-- after:
--     def normalize(images):                        # a tensor of all images
--         return (images - MEAN) / STD
-- risks: Work that moves into worker processes or onto the device does not disappear: it takes time there.
-- check: tracekit query after.json python_time; python -m cProfile SCRIPT
-- sources: https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
--     https://docs.python.org/3/library/profile.html
-- doubts: no_stacks
-- A function's own work: its frame, ranges that it annotates, and what it calls of Python's library and
-- built-in functions, and to walk over a model's modules; other functions of PyTorch, and of profilers, count
-- as theirs, and those of a server's front end as none of the program's. Only functions that could fill a
-- noticeable share.
WITH RECURSIVE span AS (
    SELECT s.trace_id, coalesce(w.end_ns - w.start_ns, s.end_ns - s.start_ns) AS ns
    FROM (FROM trace_span ANTI JOIN front_end USING (trace_id)) AS s
    LEFT JOIN (FROM windows SEMI JOIN main_device USING (trace_id, device_id) WHERE kind = 'gpu_active') AS w
        USING (trace_id)
),
slice AS (
    SELECT trace_id, thread, event_id, pid, tid, name, parent_id, self_ns,
           has(traits, 'source_line') AND NOT has(traits, 'library') AS is_frame
    FROM thread_slice JOIN slices USING (trace_id, event_id)
    WHERE activity = 'python' AND is_asked(trace_id)
        AND (kind = 'annotation' OR kind = 'python'
            AND NOT (has(traits, 'thread_wait') OR has(traits, 'recorder'))
            AND (has(traits, 'source_line') AND NOT has(traits, 'library') OR NOT has(traits, 'of_torch')
                OR has(traits, 'walks_modules')))
),
-- From each slice up to the function around it.
climbing AS (
    SELECT *, event_id AS owner_id FROM slice
    UNION ALL
    SELECT c.trace_id, c.thread, c.event_id, c.pid, c.tid, s.name, s.parent_id, c.self_ns, s.is_frame,
           s.event_id
    FROM climbing AS c JOIN slice AS s ON c.thread = s.thread AND c.parent_id = s.event_id
    WHERE NOT c.is_frame
),
called AS (
    SELECT *, sum(self_ns) OVER (PARTITION BY trace_id, owner_id) AS call_ns FROM climbing WHERE is_frame
),
owned AS (
    SELECT *, sum(self_ns) OVER here AS own_ns,
           median(call_ns) FILTER (event_id = owner_id) OVER here AS median_ns
    FROM called WINDOW here AS (PARTITION BY trace_id, name)
)
SELECT o.trace_id, o.name AS place,
       duration_text(median_ns) || ' of its own in the median call' AS detail,
       'host' AS target, owner_id AS event_id, pid, tid, s.start_ns, s.end_ns - s.start_ns AS dur_ns,
       0 AS factor
FROM thread_segment AS s JOIN owned AS o USING (thread, event_id) JOIN span USING (trace_id)
WHERE host_activity_of(activity_code) = 'python' AND own_ns >= thresholds().long_share * ns
