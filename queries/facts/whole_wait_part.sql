-- fact: What a thread did in a late gap that the timeline stores as one row, or in a part of it.
-- needs: gpu_timeline, thread_segment, windows
-- of: crowded_trace
-- Late gaps, cut at the borders of windows: the thread's time in each activity meanwhile, `ns`.
CREATE TABLE _scratch.whole_wait_part (
    trace_id INTEGER, -- the trace
    device_id BIGINT, cause idle_cause, op_id BIGINT, start_ns BIGINT, end_ns BIGINT, ns BIGINT
);
WITH gap AS (
    SELECT * REPLACE (lead(start_ns, 1, end_ns) OVER later AS end_ns)
    FROM (
        SELECT DISTINCT h.* REPLACE (greatest(h.start_ns, at_ns) AS start_ns)
        FROM (SELECT trace_id, device_id, unnest([NULL, start_ns, end_ns]) AS at_ns
            FROM windows) AS w
        JOIN whole_wait AS h USING (trace_id, device_id) WHERE coalesce(at_ns, h.start_ns) < h.end_ns
    )
    WINDOW later AS (PARTITION BY trace_id, device_id, place ORDER BY start_ns)
),
done AS MATERIALIZED (
    SELECT thread, activity_code, start_ns, end_ns,
           coalesce(sum(end_ns - start_ns) OVER earlier, 0) AS before_ns
    FROM thread_segment SEMI JOIN gap USING (thread)
    WINDOW earlier AS (
        PARTITION BY thread, activity_code ORDER BY start_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
)
SELECT g.trace_id, g.device_id, host_activity_of(g.activity_code)::VARCHAR::idle_cause AS cause, g.op_id,
       g.start_ns, g.end_ns,
       coalesce(l.before_ns + least(l.end_ns, g.end_ns) - l.start_ns, 0)
       - coalesce(f.before_ns + least(f.end_ns, g.start_ns) - f.start_ns, 0) AS ns
FROM (FROM gap JOIN (SELECT DISTINCT thread, activity_code FROM done) USING (thread)) AS g
ASOF LEFT JOIN done AS l
  ON g.thread = l.thread AND g.activity_code = l.activity_code AND g.end_ns >= l.start_ns
ASOF LEFT JOIN done AS f
  ON g.thread = f.thread AND g.activity_code = f.activity_code AND g.start_ns >= f.start_ns
