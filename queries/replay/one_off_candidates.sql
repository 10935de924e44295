-- question: Which events happened once, or took far longer than similar events?
-- since: 0.1
-- column kind (text): stretch (a thread in one slice, or in none), range (an annotation with everything
--     inside it, except steps), capture (of a graph: a row of capture_calls), compilation,
--     loading (of code, in calls of the driver alone),
--     allocation (all of it, if it ends in the first half of the launches), op (a communicating kernel),
--     copies (between host and device, many in a row on a thread), call (the first of an operator that has
--     one of these inside, if later ones are far shorter) or unended (a stretch in a slice until
--     recording stopped: its end is unknown)
-- columns event_id, pid, tid, start_ns, dur_ns
-- column usual_ns (ns): the median of the thread's stretches on the same activity (0 if there are hardly
--     any), of the ranges of that name (numbers aside), of the operators of that name without a
--     capture, or of the kernels of that name
-- columns cause, name
-- column at_place (list of start_ns and dur_ns): of recurring events, all stretches at this call site
-- column is_new_shape (boolean): an earlier step ran the operator, and none did with these shapes
-- when: (SELECT bool_or(class = 'communication' OR activity IN ('compilation', 'allocation')
--     OR call = 'begin_capture' OR kind = 'annotation' AND NOT has(traits, 'step'))
--     OR (SELECT count(*) FROM trace) > (SELECT count(*) FROM (SELECT 1 FROM steps WHERE event_id >= 0
--     GROUP BY trace_id HAVING count(*) < thresholds().fewest_alike)) FROM slice_label)
-- doubts: no_gpu_ops, unlinked_gpu_ops, absurd_duration
-- tracekit/replay/one_offs.py decides which of them a verdict leaves out: the question one_offs lists these.
-- Recurring events are left out, and stops of threads if most steps have one. An event recurs if it happens
-- in half of the steps or, without steps, in most quarters of the run (by launches), or twice at the same
-- line of the program after the run's first quarter. One or two units of work and a loop are no steps here.
-- One or two marked steps do not show what each step repeats, so in such a trace no stretch is a candidate,
-- and no kernel is except the first collective of ranks that begin to record at different times. In a trace
-- of few launches, only captures are candidates, and time in which nothing was recorded before or after
-- nearly all work of the device. Copies in a row are weights or a checkpoint; with steps, copies are judged
-- like other events.
WITH span AS (
    SELECT trace_id, ceil(thresholds().long_share * (end_ns - start_ns))::BIGINT AS long_ns
    FROM windows JOIN main_device USING (trace_id, device_id) WHERE kind = 'gpu_active' AND is_asked(trace_id)
),
step AS (
    SELECT trace_id, start_ns, row_number() OVER (PARTITION BY trace_id ORDER BY start_ns) AS number
    FROM steps WHERE is_asked(trace_id)
    QUALIFY event_id >= 0 OR count(*) OVER (PARTITION BY trace_id) >= thresholds().fewest_alike
),
sparse AS (
    SELECT trace_id FROM gpu_ops WHERE is_asked(trace_id)
    GROUP BY trace_id HAVING count(launch_id) < thresholds().unlinked_majority * count(*)
),
stepped AS (SELECT trace_id, count(*) AS steps FROM step GROUP BY trace_id),
progress AS (
    SELECT trace_id, pid, tid, launch_id, start_ns,
           percent_rank() OVER (PARTITION BY trace_id ORDER BY start_ns) AS done,
           count(*) OVER (PARTITION BY trace_id) AS calls
    FROM launch_call WHERE is_asked(trace_id)
),
thread AS (
    SELECT thread, trace_id, pid, tid, start_ns, end_ns, long_ns FROM host_thread JOIN span USING (trace_id)
    WHERE (trace_id, pid, tid) IN (SELECT (trace_id, pid, tid) FROM progress
        WHERE calls >= thresholds().fewest_calls)
),
segment AS NOT MATERIALIZED (
    SELECT s.*, trace_id, pid, tid, long_ns, host_activity_of(activity_code) AS activity,
           s.start_ns > t.start_ns AND (s.end_ns < t.end_ns OR s.event_id IS NOT NULL) AS is_within
    FROM thread_segment AS s JOIN thread AS t USING (thread)
),
-- Stretches.
long AS MATERIALIZED (
    FROM segment WHERE end_ns - start_ns >= long_ns AND is_within
        AND activity NOT IN ('sync', 'copy', 'compilation')
),
usual AS (
    SELECT thread, activity_code, CASE WHEN count(*) < thresholds().fewest_alike THEN 0
               ELSE median(end_ns - start_ns)::BIGINT END AS usual_ns
    FROM thread_segment SEMI JOIN long USING (thread, activity_code) GROUP BY ALL
),
beside AS (
    SELECT l.thread, l.segment, l.trace_id, s.segment - l.segment AS place, s.event_id
    FROM long AS l JOIN thread_segment AS s
      ON l.thread = s.thread AND s.segment BETWEEN l.segment - 1 AND l.segment + 1
),
named AS (
    SELECT b.thread, b.segment, any_value(n.name) FILTER (place < 0) AS before,
           any_value(n) FILTER (place = 0) AS own, any_value(n.name) FILTER (place > 0) AS after
    -- Lists of ids: a join is then built on them, not on all events.
    FROM beside AS b LEFT JOIN (
        FROM event_row WHERE event_id IN (SELECT unnest(list(event_id)) FROM beside)
    ) AS e ON b.trace_id = e.trace_id AND b.event_id = e.event_id
    LEFT JOIN slice_label AS n USING (label_id)
    GROUP BY b.thread, b.segment
),
stretch AS (
    SELECT trace_id, 'stretch' AS kind, event_id, pid, tid, start_ns, end_ns, activity, usual_ns,
           own.name AS name, own.kind AS slice_kind,
           CASE WHEN activity = 'input' AND own.name IS NOT NULL THEN folded_name(own.name)
               ELSE folded_name(coalesce(before, '')) || ' / ' || folded_name(coalesce(after, ''))
               END AS place,
           CASE WHEN own.name IS NULL OR own.kind = 'annotation' THEN place
               ELSE folded_name(own.name) END AS alike,
           end_ns - start_ns >= thresholds().one_off_ratio * usual_ns AS is_far
    FROM long JOIN usual USING (thread, activity_code) JOIN named USING (thread, segment)
    LEFT JOIN stepped USING (trace_id)
    -- A graph's launch takes longer than a kernel's.
    WHERE coalesce(own.call <> 'launch_graph', TRUE)
        -- Each step fetches a batch: the only fetch in a trace shows no others that were faster.
        AND (activity <> 'input' OR (trace_id, coalesce(own.name, '')) NOT IN (
            SELECT (trace_id, name) FROM annotations WHERE is_asked(trace_id)
            GROUP BY trace_id, name HAVING count(*) = 1))
        -- A call waits for room in a queue, which may be full of launches that were not recorded.
        AND (activity <> 'launch' OR trace_id NOT IN (FROM sparse))
        AND coalesce(steps, thresholds().fewest_alike) >= thresholds().fewest_alike
),
-- At the edge of a recording without steps, however few its launches: `done_ns` is what was launched before.
edge AS (
    SELECT s.trace_id, 'stretch' AS kind, NULL::BIGINT AS event_id, s.pid, s.tid, s.start_ns, s.end_ns,
           'untraced' AS activity, 0 AS usual_ns
    FROM (
        SELECT h.trace_id, pid, tid, s.start_ns, s.end_ns, long_ns FROM thread_segment AS s
        JOIN host_thread AS h USING (thread) JOIN span USING (trace_id)
        WHERE s.event_id IS NULL AND s.end_ns - s.start_ns >= greatest(long_ns, thresholds().unrecorded_ns)
            AND s.start_ns > h.start_ns AND s.end_ns < h.end_ns
            AND h.trace_id NOT IN (SELECT trace_id FROM stepped) AND (h.trace_id, pid, tid) IN (
                SELECT (trace_id, pid, tid) FROM progress WHERE calls < thresholds().fewest_calls)
    ) AS s JOIN gpu_ops AS g ON s.trace_id = g.trace_id
    GROUP BY s.trace_id, s.pid, s.tid, s.start_ns, s.end_ns
    HAVING sum(if(coalesce(g.launch_start_ns, g.start_ns) < s.start_ns, dur_ns, 0)) / sum(dur_ns)
        NOT BETWEEN thresholds().long_share AND 1 - thresholds().long_share
),
-- Ranges.
range AS (
    SELECT trace_id, 'range' AS kind, event_id, pid, tid, a.start_ns, a.end_ns, 'untraced' AS activity, name,
           median(dur_ns) OVER like_it AS usual_ns, folded_name(name) AS alike, '' AS place
    FROM annotations AS a JOIN thread USING (trace_id, pid, tid)
    WHERE side = 'host' AND NOT has(traits, 'step')
    WINDOW like_it AS (PARTITION BY trace_id, pid, tid, folded_name(name))
    QUALIFY count(*) OVER like_it >= thresholds().fewest_alike AND dur_ns >= long_ns
        AND dur_ns >= thresholds().one_range_ratio * usual_ns
),
-- Captures of graphs.
capture AS (
    SELECT c.trace_id, 'capture' AS kind, event_id, pid, tid, c.start_ns, c.end_ns,
           'compilation' AS activity, usual_ns, 'CUDA graph capture' AS name
    FROM capture_calls AS c SEMI JOIN span USING (trace_id)
    JOIN recurring_capture USING (trace_id, capture_id)
    WHERE NOT recurs(steps, in_steps, quarters, thresholds().fewest_alike, thresholds().recurring_quarters)
),
-- Compilation and loading of code: adjacent stretches of a thread are one.
compiling AS (
    SELECT *, sum(is_new::INTEGER) OVER (PARTITION BY thread ORDER BY segment) AS run
    FROM (SELECT *,
                 start_ns IS DISTINCT FROM lag(end_ns) OVER (PARTITION BY thread ORDER BY segment) AS is_new,
                 coalesce((trace_id, event_id) IN (
                     SELECT (trace_id, event_id) FROM runtime_calls WHERE call = 'load_code'), FALSE) AS loads
        FROM segment AS s ANTI JOIN capture_calls AS c
            ON s.trace_id = c.trace_id AND s.pid = c.pid AND s.tid = c.tid AND s.start_ns >= c.start_ns
              AND s.start_ns < c.end_ns
          WHERE activity = 'compilation')
),
compilation AS (
    SELECT trace_id, CASE WHEN bool_and(loads) THEN 'loading' ELSE 'compilation' END AS kind,
           arg_min(event_id, segment) AS event_id, pid, tid,
           min(start_ns) AS start_ns, max(end_ns) AS end_ns, 'compilation' AS activity, 0 AS usual_ns,
           'compilation' AS alike, min(segment)::VARCHAR AS place
    FROM compiling GROUP BY trace_id, thread, pid, tid, run
    HAVING max(end_ns) - min(start_ns) >= any_value(long_ns)
),
-- Allocation that settles.
allocation AS (
    SELECT a.trace_id, 'allocation' AS kind, a.event_id, a.pid, a.tid, a.start_ns, a.end_ns, activity,
           0 AS usual_ns
    FROM (FROM segment WHERE activity = 'allocation') AS a ASOF JOIN progress AS p
      ON a.trace_id = p.trace_id AND a.start_ns >= p.start_ns
    QUALIFY max(p.done) OVER (PARTITION BY a.trace_id) < thresholds().allocation_settled_by
        AND sum(a.end_ns - a.start_ns) OVER (PARTITION BY a.trace_id) >= long_ns
),
-- Copies in a row on a thread: no other op is launched between them. A run that only copies has no others.
launched AS (
    SELECT *, coalesce(copy_kind IN ('HtoD', 'DtoH'), FALSE) AS is_copy,
           sum(dur_ns) OVER (PARTITION BY trace_id) AS all_ns, count(*) OVER (PARTITION BY trace_id) AS ops,
           row_number() OVER (PARTITION BY trace_id, pid, tid ORDER BY launch_start_ns, event_id)
           - row_number() OVER (PARTITION BY trace_id, pid, tid, is_copy
               ORDER BY launch_start_ns, event_id) AS run
    FROM gpu_ops SEMI JOIN thread USING (trace_id, pid, tid)
    WHERE trace_id NOT IN (SELECT trace_id FROM stepped)
),
row_of_copies AS (
    SELECT trace_id, pid, tid, arg_min(launch_id, launch_start_ns) AS event_id,
           min(launch_start_ns) AS start_ns, max(launch_end_ns) AS end_ns, mode(name ORDER BY name) AS name
    FROM launched WHERE is_copy GROUP BY trace_id, pid, tid, run
    HAVING count(*) BETWEEN thresholds().fewest_copies AND any_value(ops) - thresholds().fewest_copies
        AND sum(dur_ns) >= thresholds().copied_share * any_value(all_ns)
),
copies AS (
    SELECT c.*, 'copies' AS kind, 'copy' AS activity, 0 AS usual_ns
    FROM row_of_copies AS c ASOF JOIN progress AS p ON c.trace_id = p.trace_id AND c.start_ns >= p.start_ns
    WINDOW alike AS (PARTITION BY c.trace_id, c.name)
    QUALIFY count(*) OVER alike = 1 OR max(p.done) OVER alike < thresholds().one_off_early_share
),
-- Communicating kernels.
op AS (
    SELECT trace_id, 'op' AS kind, event_id, start_ns, end_ns, 'communication' AS activity,
           coalesce(dur_ns - skew_ns, median(dur_ns) OVER like_it) AS usual_ns, name, name AS alike,
           event_id::VARCHAR AS place
    FROM gpu_ops JOIN span USING (trace_id) LEFT JOIN stepped USING (trace_id) LEFT JOIN (
        SELECT trace_id, event_id, time_ns AS skew_ns FROM recorder_finding WHERE code = 'arrival_skew'
    ) USING (trace_id, event_id)
    WHERE activity = 'communication'
        AND (skew_ns IS NOT NULL OR coalesce(steps, thresholds().fewest_alike) >= thresholds().fewest_alike)
    WINDOW like_it AS (PARTITION BY trace_id, device_id, name),
           others AS (PARTITION BY trace_id, device_id, name ORDER BY start_ns
               ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE CURRENT ROW)
    QUALIFY dur_ns >= long_ns
        AND (skew_ns IS NOT NULL OR (count(*) OVER like_it >= thresholds().fewest_alike
            AND dur_ns >= thresholds().one_off_ratio
                * quantile_disc(dur_ns, thresholds().nearly_all) OVER others))
),
candidate AS (
    SELECT c.* REPLACE (coalesce(is_far, TRUE) AS is_far), coalesce(p.done, 0) AS done, s.number AS step,
           steps
    FROM (FROM stretch UNION ALL BY NAME FROM range UNION ALL BY NAME FROM compilation
        UNION ALL BY NAME FROM op) AS c
    LEFT JOIN stepped AS n ON c.trace_id = n.trace_id
    ASOF LEFT JOIN progress AS p ON c.trace_id = p.trace_id AND c.start_ns >= p.start_ns
    ASOF LEFT JOIN step AS s ON c.trace_id = s.trace_id AND c.start_ns >= s.start_ns
),
counted AS (
    SELECT *, count(*) OVER at_place AS times_at_place, max(done) OVER at_place AS last_at_place,
           median(end_ns - start_ns) OVER at_place AS usual_at_place_ns,
           list({'start_ns': start_ns, 'dur_ns': end_ns - start_ns} ORDER BY start_ns) OVER at_place
               AS at_place,
           count(DISTINCT step) FILTER (is_far) OVER like_it AS steps_with,
           count(DISTINCT floor(done * 4)) FILTER (is_far) OVER like_it AS quarters_with,
           -- A thread that is kept from running stops in calls of any name.
           kind = 'stretch' AND activity IN ('dispatch', 'launch', 'untraced') AS may_be_kept,
           count(DISTINCT step) FILTER (is_far AND may_be_kept) OVER whole AS steps_kept
    FROM candidate
    WINDOW like_it AS (PARTITION BY trace_id, kind, alike),
           at_place AS (PARTITION BY trace_id, kind, alike, place), whole AS (PARTITION BY trace_id)
),
once AS (
    SELECT trace_id, kind, event_id, pid, tid, start_ns, end_ns, usual_ns, activity, name, slice_kind
    FROM counted
    WHERE is_far AND (times_at_place = 1 OR last_at_place < thresholds().one_off_early_share)
        AND CASE WHEN coalesce(steps, 0) >= thresholds().fewest_alike THEN 2 * steps_with < steps
                     AND NOT (may_be_kept AND steps_kept >= thresholds().fewest_alike
                         AND 2 * steps_kept > steps)
                 ELSE quarters_with < thresholds().recurring_quarters END
    UNION ALL BY NAME
    -- Recurring events that took far longer once.
    SELECT trace_id, kind, event_id, pid, tid, start_ns, end_ns, usual_at_place_ns AS usual_ns, activity,
           name, slice_kind, at_place
    FROM counted
    WHERE kind = 'stretch' AND times_at_place >= thresholds().fewest_alike
        AND end_ns - start_ns >= thresholds().one_range_ratio * usual_at_place_ns
    QUALIFY count(*) OVER (PARTITION BY trace_id, alike, place) = 1
    UNION ALL BY NAME
    (FROM capture UNION ALL BY NAME FROM allocation UNION ALL BY NAME FROM copies
        UNION ALL BY NAME FROM edge)
),
-- First calls: what makes an operator ready is in one call, whatever slices it is recorded in.
long_call AS (
    SELECT trace_id, pid, tid, s.event_id, s.name, s.start_ns, s.end_ns, s.dur_ns
    FROM slices AS s JOIN thread USING (trace_id, pid, tid) WHERE s.kind = 'cpu_op' AND s.dur_ns >= long_ns
),
like_long AS (
    SELECT trace_id, name, min(start_ns) AS first_ns, count(*) AS calls, median(dur_ns) AS usual_ns
    FROM slices SEMI JOIN long_call USING (trace_id, name)
    WHERE kind = 'cpu_op' AND is_asked(trace_id) GROUP BY ALL
),
first_call AS (
    SELECT c.trace_id, 'call' AS kind, c.event_id, c.pid, c.tid, c.start_ns, c.end_ns, usual_ns,
           'dispatch' AS activity, c.name
    FROM long_call AS c JOIN like_long AS l ON c.trace_id = l.trace_id AND c.name = l.name
        AND c.start_ns = l.first_ns
    SEMI JOIN once AS o ON o.trace_id = c.trace_id AND o.pid = c.pid AND o.tid = c.tid
        AND o.start_ns >= c.start_ns AND o.end_ns <= c.end_ns
    WHERE calls >= thresholds().fewest_alike AND c.dur_ns >= thresholds().one_off_ratio * usual_ns
),
listed AS (FROM once UNION ALL BY NAME FROM first_call),
own AS MATERIALIZED (FROM event_row WHERE event_id IN (SELECT unnest(list(event_id)) FROM listed)),
-- An operator that an earlier step ran, with other shapes.
shaped AS (
    SELECT o.trace_id, o.event_id FROM listed AS o
    JOIN own AS e ON o.trace_id = e.trace_id AND o.event_id = e.event_id
    JOIN slice_label AS n ON e.label_id = n.label_id AND n.kind = 'cpu_op'
    JOIN (FROM event_row WHERE label_id IN (SELECT unnest(list(DISTINCT label_id)) FROM own)) AS b
      ON e.trace_id = b.trace_id AND e.label_id = b.label_id AND b.ts_ns < e.ts_ns
    ASOF JOIN step AS s ON o.trace_id = s.trace_id AND o.start_ns >= s.start_ns
    WHERE len(shapes_of(e.args->'Input Dims')) > 0
    GROUP BY o.trace_id, o.event_id
    HAVING bool_or(b.ts_ns < s.start_ns) AND NOT bool_or((b.args->'Input Dims') = (e.args->'Input Dims'))
)
SELECT o.trace_id,
       -- A call of the runtime is recorded when it returns: its end is in doubt only at the trace's very end.
       CASE WHEN o.kind = 'stretch' AND slice_kind IS NOT NULL
                AND o.end_ns >= t.end_ns
                    - if(slice_kind IN ('runtime', 'driver'), 0, thresholds().unended_ns)
            THEN 'unended' ELSE o.kind END AS kind,
       o.event_id, o.pid, o.tid, o.start_ns, o.end_ns - o.start_ns AS dur_ns, o.usual_ns::BIGINT AS usual_ns,
       CASE o.activity WHEN 'communication' THEN 'communication'
           ELSE host_cause(o.activity, o.end_ns - o.start_ns >= thresholds().unrecorded_ns) END AS cause,
       coalesce(o.name, l.name) AS name, coalesce(at_place, []) AS at_place,
       (o.trace_id, o.event_id) IN (FROM shaped) IS TRUE AS is_new_shape
FROM listed AS o LEFT JOIN own AS e ON o.trace_id = e.trace_id AND o.event_id = e.event_id
LEFT JOIN label AS l USING (label_id)
LEFT JOIN thread AS t ON o.trace_id = t.trace_id AND o.pid = t.pid AND o.tid = t.tid
ORDER BY o.trace_id, o.start_ns, o.kind, o.event_id
