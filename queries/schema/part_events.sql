-- The events of a part of the trace in the variable `trace`, from `from_ns` to `to_ns`: all that overlap it,
-- the kernels launched in it, the calls that launched its kernels with the slices around them, flows with
-- both ends there, and metadata. `key_ns`: the least end of a part from `from_ns` on that has the event. A
-- step that extends beyond the part would be measured as a whole one, so its mark is left out.
WITH op AS (
    SELECT event_id, start_ns, end_ns, launch_id, pid, tid, launch_start_ns,
           coalesce(launch_start_ns, start_ns) AS key_ns
    FROM gpu_ops
    WHERE trace_id = getvariable('trace')
      AND (start_ns <= getvariable('to_ns') AND end_ns >= getvariable('from_ns')
           OR launch_start_ns BETWEEN getvariable('from_ns') AND getvariable('to_ns'))
),
earlier AS (
    SELECT DISTINCT pid, tid, launch_start_ns FROM op WHERE launch_start_ns < getvariable('from_ns')
),
whole_step AS (
    SELECT name FROM steps AS s LEFT JOIN (FROM windows WHERE kind = 'step') AS w USING (trace_id, name)
    WHERE trace_id = getvariable('trace') GROUP BY name
    HAVING min(s.start_ns) >= getvariable('from_ns')
       AND max(greatest(s.end_ns, coalesce(w.end_ns, s.end_ns))) <= getvariable('to_ns')
),
slice AS (
    SELECT event_id, pid, tid, start_ns, end_ns FROM slices
    WHERE trace_id = getvariable('trace')
        AND coalesce(kind, '') NOT IN ('kernel', 'memcpy', 'memset', 'host_function')
      AND (has(traits, 'step') IS NOT TRUE OR name IN (FROM whole_step))
),
chosen AS (
    SELECT event_id, key_ns FROM op
    UNION ALL
    SELECT event_id, start_ns FROM slice
    WHERE start_ns <= getvariable('to_ns') AND end_ns >= getvariable('from_ns')
    UNION ALL
    SELECT event_id, start_ns
    FROM slice JOIN earlier USING (pid, tid)
    WHERE start_ns <= launch_start_ns AND end_ns > launch_start_ns
),
chosen_event AS (
    SELECT event_id, min(key_ns) AS key_ns, any_value(pid) AS pid, any_value(tid) AS tid,
           any_value(ts_ns) AS ts_ns
    FROM chosen JOIN event_row USING (event_id)
    WHERE trace_id = getvariable('trace') GROUP BY event_id
),
-- An end of a flow is at the start of its slice.
arrow_end AS (
    SELECT f.event_id, category, flow_id,
           coalesce(k.key_ns, CASE WHEN f.ts_ns BETWEEN getvariable('from_ns') AND getvariable('to_ns')
                                   THEN f.ts_ns END) AS key_ns
    FROM flows AS f LEFT JOIN
        (SELECT pid, tid, ts_ns, min(key_ns) AS key_ns FROM chosen_event GROUP BY ALL) AS k
      USING (pid, tid, ts_ns)
    WHERE trace_id = getvariable('trace')
),
arrow AS (
    SELECT event_id, max(key_ns) OVER one_flow AS key_ns FROM arrow_end
    WINDOW one_flow AS (PARTITION BY category, flow_id)
    QUALIFY count(key_ns) OVER one_flow = count(*) OVER one_flow
)
SELECT event_id, key_ns FROM chosen_event
UNION ALL
SELECT event_id, key_ns FROM arrow
UNION ALL
SELECT event_id, CASE WHEN phase <> 'M' THEN ts_ns ELSE -thresholds().late_time_ns END
FROM event ANTI JOIN slices USING (trace_id, event_id)
WHERE trace_id = getvariable('trace') AND phase NOT IN ('s', 't', 'f')
  AND (phase = 'M' OR ts_ns BETWEEN getvariable('from_ns') AND getvariable('to_ns'))
