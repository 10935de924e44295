-- fact: A device's first collective, if it waits for ranks that start recording later.
-- into: recorder_finding
-- needs: gpu_ops
-- when: class = 'communication'
-- Starting a profiler takes some ranks seconds longer than others, and they meet in the first collective:
-- github.com/AMD-AGI/Hyperloom/pull/1292. It must stand out from later collectives, which wait in each step,
-- too.
WITH op AS (
    SELECT *, row_number() OVER (PARTITION BY trace_id, device_id ORDER BY start_ns, event_id) AS place
    FROM gpu_ops JOIN main_device USING (trace_id, device_id) WHERE activity = 'communication'
),
compared AS (
    SELECT f.trace_id, f.event_id, f.dur_ns, count(*) AS others, median(o.dur_ns)::BIGINT AS usual_ns,
           quantile_disc(o.dur_ns, thresholds().nearly_all) AS most_ns
    FROM (FROM op WHERE place = 1) AS f JOIN (FROM op WHERE place > 1) AS o USING (trace_id)
    GROUP BY ALL
)
SELECT trace_id, 'arrival_skew' AS code, 'warning' AS severity, 1 AS count,
       format('the first collective takes {}, the other {:,} take {} at the median: ranks that began to '
           || 'record at different times met there, which is neither work nor communication',
           duration_text(dur_ns), others, duration_text(usual_ns)) AS message,
       dur_ns - usual_ns AS time_ns, event_id
FROM compared
WHERE others >= thresholds().fewest_lost AND dur_ns >= thresholds().arrival_ns
    AND dur_ns >= thresholds().arrival_ratio * most_ns
