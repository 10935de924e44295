-- Communication between devices.

-- nccl-tests' factor from algorithm bandwidth (seen by one rank) to bus bandwidth (of the slowest link), in a
-- group of n ranks. https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
CREATE OR REPLACE MACRO bus_factor(type, n) AS CASE
    WHEN type = 'allreduce' THEN 2 * (n - 1) / n
        WHEN type IN ('allgather', 'reducescatter', 'alltoall', 'scatter', 'gather') THEN (n - 1) / n
    WHEN type IN ('broadcast', 'reduce', 'sendrecv') THEN 1 END;

-- The traces that may belong to one job: they have the same number of ranks and were recorded within
-- thresholds().job_gap_ns of each other (their hosts' clocks differ). `job` is the first of these traces.
CREATE OR REPLACE VIEW jobs AS
WITH span AS (
    SELECT trace_id, rank, world_size, coalesce(base_time_ns, 0) + s.start_ns AS start_ns,
           coalesce(base_time_ns, 0) + s.end_ns AS end_ns
    FROM trace JOIN trace_span AS s USING (trace_id)
)
SELECT a.trace_id, min(b.trace_id) AS job
FROM span AS a JOIN span AS b ON a.world_size IS NOT DISTINCT FROM b.world_size
 AND a.start_ns <= b.end_ns + thresholds().job_gap_ns AND b.start_ns <= a.end_ns + thresholds().job_gap_ns
GROUP BY a.trace_id;

-- Collectives that several ranks of the database took part in. `call_key` identifies one.
CREATE OR REPLACE VIEW awaited_collectives AS
SELECT c.* EXCLUDE (exposed_ns, alike_count, wait_ns) REPLACE (m.sequence AS sequence),
       job, rank, base_time_ns, group_key, step, matched_by, place,
       {'job': job, 'group_key': group_key, 'matched_by': matched_by,
        'step': CASE WHEN m.sequence IS NULL THEN step END, 'place': place, 'type': c.type} AS call_key,
       ranks_seen, wire_ns, place_by_length, last_trace_id, last_rank, last_direction,
       c.dur_ns - wire_ns AS wait_ns, awaited_ns, place_by_length = 1 AS is_last
FROM collective AS c JOIN matched_collective AS m USING (trace_id, event_id) WHERE ranks_seen > 1;

-- How far each rank's clock is ahead of the clock of its job's first rank. A collective ends on all its ranks
-- at the same time (but a broadcast's sender may leave earlier), so that is the median over collectives of
-- the differences of their ends. A rank that shares no collective with the first is compared with ranks that
-- do, and so on; `hops` counts these. A receive ends with its send if it waited for it: it took longer than
-- the message. Ranks that no such path reaches are left out. `residual_ns` is the median deviation of the
-- single differences.
CREATE OR REPLACE VIEW aligned_clocks AS
WITH RECURSIVE finish AS MATERIALIZED (
    SELECT call_key, job, trace_id, rank, max(coalesce(base_time_ns, 0) + end_ns) AS end_ns
    FROM awaited_collectives
    WHERE last_direction = 'send' AND awaited_ns > wire_ns
        OR type IN ('allreduce', 'allgather', 'reducescatter', 'alltoall', 'barrier')
    GROUP BY ALL
),
reached AS (
    SELECT arg_min(trace_id, {'rank': coalesce(rank, trace_id), 'trace_id': trace_id}) AS trace_id, 0 AS hops,
           0::BIGINT AS offset_ns, 0::BIGINT AS residual_ns, 0::BIGINT AS compared
    FROM finish GROUP BY job
    UNION ALL
    (
        WITH known AS (
            SELECT call_key, percentile(list(f.end_ns - r.offset_ns), 50) AS end_ns
            FROM finish AS f JOIN reached AS r USING (trace_id) GROUP BY call_key
        ),
        difference AS (
            SELECT f.trace_id, f.end_ns - k.end_ns AS ns FROM finish AS f JOIN known AS k USING (call_key)
            WHERE f.trace_id NOT IN (SELECT trace_id FROM reached)
        ),
        found AS (
            SELECT trace_id, percentile(list(ns), 50) AS offset_ns, list(ns) AS differences FROM difference
            GROUP BY trace_id
        )
        SELECT trace_id, hops, offset_ns, residual_ns, compared FROM reached WHERE EXISTS (FROM found)
        UNION ALL
        SELECT trace_id, (SELECT max(hops) + 1 FROM reached), offset_ns,
               percentile(list_transform(differences, lambda ns: abs(ns - offset_ns)), 50), len(differences)
        FROM found
    )
)
SELECT trace_id, any_value(hops) AS hops, any_value(offset_ns) AS offset_ns,
       any_value(residual_ns) AS residual_ns, any_value(compared) AS compared
FROM reached GROUP BY trace_id;

-- The collectives that the framework itself issues: gradients that it reduces, parameters that it gathers.
-- Only these are known to be independent of the compute beside them.
CREATE OR REPLACE MACRO framework_collectives(row_least) AS TABLE
WITH RECURSIVE timed AS MATERIALIZED (
    SELECT t.trace_id, t.event_id, t.pid, t.tid, launch_id
    FROM collective AS t JOIN gpu_ops AS l USING (trace_id, event_id)
    WHERE launch_id IS NOT NULL AND is_asked(t.trace_id) AND t.dur_ns > 0
        AND type IN ('allreduce', 'reducescatter', 'allgather')
),
around AS (
    SELECT trace_id, launch_id, launch_id AS around_id FROM timed
    UNION ALL
    SELECT a.trace_id, launch_id, h.parent_id
    FROM around AS a JOIN thread_slice AS h ON a.trace_id = h.trace_id AND a.around_id = h.event_id
),
sign AS (
    SELECT label_id, name SIMILAR TO '.*(AccumulateGrad|torch\.distributed\.ddp\.reducer).*' AS is_gradient,
           has(traits, 'autograd_node') AS is_node,
           name SIMILAR TO '.*(FullyShardedDataParallel|FSDP::|fully_shard).*' AS is_sharded
    FROM slice_label WHERE kind IN ('cpu_op', 'annotation', 'python')
),
-- A compiled backward pass reduces its gradients in a row. Where layers are split over ranks, compute needs
-- the result of each reduction.
numbered AS (
    SELECT trace_id, launch_id, pid, tid, activity, count_if(activity = 'compute')
        OVER (PARTITION BY trace_id, pid, tid ORDER BY launch_start_ns, event_id) AS computed
    FROM gpu_ops WHERE (trace_id, pid, tid) IN (SELECT (trace_id, pid, tid) FROM timed)
),
in_row AS (
    SELECT trace_id, launch_id FROM numbered WHERE activity = 'communication'
    QUALIFY count(*) OVER (PARTITION BY trace_id, pid, tid, computed) >= row_least
),
known AS (
    SELECT a.trace_id, launch_id, bool_or(is_sharded) AS is_sharded,
           bool_or(is_gradient OR (is_node AND (a.trace_id, launch_id) IN (FROM in_row))) AS is_gradient
    FROM around AS a JOIN event_row AS e ON a.trace_id = e.trace_id AND a.around_id = e.event_id
    JOIN sign USING (label_id) GROUP BY ALL
)
SELECT t.trace_id, t.event_id, is_sharded, is_gradient,
       (t.trace_id, launch_id) IN (FROM in_row) AS is_in_row
FROM timed AS t JOIN known USING (trace_id, launch_id);

-- The stretches in which collectives run and no kernel computes, each with the reason (the question
-- exposed_collectives explains the reasons). Where several collectives run, a stretch is that of the first.
-- `next_id` is the op that held up compute: of the next kernel's stream, the first op after the stretch.
-- What the host did, on the thread pid, tid from `since_ns` to `until_ns`, explains a late launch. The
-- parameters are thresholds, which a session may set: launch_floor_ns, wait_ns, clock_tick_ns, hidden_share,
-- fewest_batched and bucket_bytes.
CREATE OR REPLACE MACRO exposed_stretches(floor_ns, long_ns, tick_ns, hides, row_least, bucket) AS TABLE
WITH turn AS (
    SELECT c.*, l.launch_id,
           max(c.end_ns) OVER (PARTITION BY c.trace_id, c.device_id ORDER BY c.start_ns, c.event_id
               ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS covered_ns,
           greatest(c.start_ns, coalesce(covered_ns, c.start_ns)) AS from_ns,
           lag(c.end_ns) OVER (PARTITION BY c.trace_id, c.device_id, c.stream ORDER BY c.start_ns, c.event_id)
               AS stream_free_ns
    FROM collective AS c JOIN gpu_ops AS l USING (trace_id, event_id) WHERE is_asked(c.trace_id)
),
timeline AS (
    SELECT {'trace_id': trace_id, 'device_id': device_id} AS key, start_ns, end_ns FROM gpu_timeline
    WHERE activity = 'communication' AND is_asked(trace_id)
),
bare AS MATERIALIZED (
    SELECT key.trace_id AS trace_id, key.device_id AS device_id, start_ns, end_ns
    FROM interval_union('timeline')
),
own AS MATERIALIZED (FROM turn WHERE end_ns > from_ns),
beginning AS (
    SELECT trace_id, device_id, from_ns AS at_ns FROM own
    UNION
    SELECT trace_id, device_id, start_ns FROM bare
),
piece AS MATERIALIZED (
    SELECT c.* EXCLUDE (start_ns, end_ns, from_ns, covered_ns), c.start_ns AS first_ns, c.end_ns AS last_ns,
           at_ns AS start_ns, least(c.end_ns, s.end_ns) AS end_ns, c.dur_ns - c.exposed_ns AS hidden_ns,
           CASE WHEN c.launch_start_ns < u.end_ns THEN u.end_ns END AS unit_end_ns
    FROM beginning AS b
    ASOF JOIN own AS c ON b.trace_id = c.trace_id AND b.device_id = c.device_id AND at_ns >= c.from_ns
    ASOF JOIN bare AS s ON b.trace_id = s.trace_id AND b.device_id = s.device_id AND at_ns >= s.start_ns
    ASOF LEFT JOIN (FROM unit WHERE level = 1) AS u
      ON c.trace_id = u.trace_id AND c.pid = u.pid AND c.launch_start_ns >= u.start_ns
    WHERE least(c.end_ns, s.end_ns) > at_ns
),
op AS MATERIALIZED (
    SELECT trace_id, device_id, stream, activity, event_id, start_ns, end_ns, pid, tid, launch_id,
           launch_start_ns, launch_end_ns, lag(end_ns) OVER (PARTITION BY trace_id, device_id, stream
               ORDER BY start_ns, event_id) AS before_ns
    FROM gpu_ops SEMI JOIN piece USING (trace_id, device_id) WHERE activity IN ('compute', 'copy')
),
-- Of ops that start at the same time, one.
first_compute AS (
    SELECT trace_id, device_id, start_ns, arg_min(stream, event_id) AS stream, min(event_id) AS event_id
    FROM op WHERE activity = 'compute' GROUP BY ALL
),
first_op AS (
    SELECT trace_id, device_id, stream, start_ns, min(event_id) AS event_id FROM op GROUP BY ALL
),
placed AS (
    SELECT p.*, k.stream AS next_stream
    FROM piece AS p ASOF LEFT JOIN first_compute AS k
      ON p.trace_id = k.trace_id AND p.device_id = k.device_id AND p.end_ns <= k.start_ns
),
followed AS (
    SELECT p.*, n.event_id AS next_id
    FROM placed AS p ASOF LEFT JOIN first_op AS n
      ON p.trace_id = n.trace_id AND p.device_id = n.device_id AND next_stream = n.stream
          AND p.end_ns <= n.start_ns
),
ended AS (
    SELECT trace_id, device_id, end_ns, max(launch_start_ns) AS launch_start_ns,
           arg_max(event_id, (launch_start_ns, event_id)) AS event_id
    FROM turn GROUP BY ALL
),
-- With the last collective to end before the next op: collectives may follow each other.
next AS (
    SELECT f.*, o.start_ns AS next_ns, o.launch_id AS next_launch_id, o.launch_start_ns AS next_launch_ns,
           o.launch_end_ns AS next_launched_ns, o.pid AS next_pid, o.tid AS next_tid,
           o.start_ns - o.before_ns AS gap_ns,
           l.event_id AS chain_id, l.end_ns AS chain_ns, l.launch_start_ns AS chain_launch_ns,
           o.start_ns >= f.last_ns - tick_ns AS is_after
    FROM followed AS f LEFT JOIN op AS o ON f.trace_id = o.trace_id AND f.next_id = o.event_id
    ASOF LEFT JOIN ended AS l ON f.trace_id = l.trace_id AND f.device_id = l.device_id
        AND o.start_ns >= l.end_ns - tick_ns
),
wait_call AS MATERIALIZED (
    SELECT trace_id, pid, correlation, start_ns FROM runtime_calls
    WHERE call = 'stream_wait' AND trace_id IN (SELECT trace_id FROM piece)
),
recorded AS MATERIALIZED (
    SELECT w.trace_id, w.stream, w.wait_on_stream, w.record_ns, c.start_ns
    FROM event_waits AS w JOIN wait_call AS c USING (trace_id, correlation) WHERE w.record_ns IS NOT NULL
),
launched AS (
    SELECT trace_id, event_id, lag(event_id) OVER (PARTITION BY trace_id, pid, tid
               ORDER BY launch_start_ns, start_ns, event_id) AS before_id
    FROM gpu_ops WHERE launch_id IS NOT NULL AND trace_id IN (SELECT trace_id FROM piece)
),
awaited AS MATERIALIZED (
    SELECT n.*, is_after AND coalesce(r.record_ns > n.launch_start_ns, FALSE) AS is_recorded,
           is_recorded OR is_after AND next_launched_ns < n.end_ns
               AND next_ns BETWEEN chain_ns - tick_ns AND chain_ns + long_ns
               AND coalesce(CASE WHEN n.launch_id = next_launch_id THEN TRUE
                   WHEN n.trace_id IN (SELECT trace_id FROM wait_call) THEN w.start_ns >= chain_launch_ns
                   ELSE before_id = chain_id END, FALSE) AS is_awaited
    FROM next AS n
    ASOF LEFT JOIN recorded AS r
      ON n.trace_id = r.trace_id AND next_stream = r.stream AND n.stream = r.wait_on_stream
          AND next_launch_ns >= r.start_ns
    ASOF LEFT JOIN wait_call AS w
      ON n.trace_id = w.trace_id AND next_pid = w.pid AND next_launch_ns >= w.start_ns
    LEFT JOIN launched AS l ON n.trace_id = l.trace_id AND next_id = l.event_id
),
called AS (SELECT DISTINCT ON (trace_id, event_id) * FROM awaited WHERE is_awaited),
-- When its input was ready: what it waited for, by its stream's last recorded wait, or else what its thread
-- launched before, had ended, and its stream was free.
told AS (
    SELECT c.trace_id, c.event_id, c.device_id, wait_on_stream, record_ns
    FROM called AS c ASOF JOIN recorded AS r
      ON c.trace_id = r.trace_id AND c.stream = r.stream AND c.launch_start_ns >= r.start_ns
),
by_stream AS (
    SELECT trace_id, device_id, stream, launch_start_ns, max(end_ns) AS end_ns FROM op
    WHERE launch_id IS NOT NULL GROUP BY ALL
),
by_thread AS (
    SELECT trace_id, pid, tid, launch_start_ns, max(end_ns) AS end_ns FROM op
    WHERE launch_id IS NOT NULL GROUP BY ALL
),
source AS (
    SELECT t.trace_id, t.event_id, o.end_ns
    FROM told AS t ASOF JOIN by_stream AS o ON t.trace_id = o.trace_id AND t.device_id = o.device_id
        AND t.wait_on_stream = o.stream AND t.record_ns > o.launch_start_ns
),
ready AS (
    SELECT c.trace_id, c.event_id, greatest(coalesce(s.end_ns, o.end_ns), c.stream_free_ns) AS ready_ns
    FROM called AS c LEFT JOIN source AS s ON c.trace_id = s.trace_id AND c.event_id = s.event_id
    ASOF LEFT JOIN by_thread AS o ON c.trace_id = o.trace_id AND c.pid = o.pid AND c.tid = o.tid
        AND c.launch_start_ns > o.launch_start_ns
),
-- The compute that it could have run beside, had it been launched then.
unused AS (
    SELECT {'trace_id': trace_id, 'device_id': device_id} AS key, event_id, ready_ns AS start_ns,
           launch_start_ns AS end_ns
    FROM called JOIN ready USING (trace_id, event_id) WHERE launch_start_ns > ready_ns
),
computed AS (
    SELECT {'trace_id': trace_id, 'device_id': device_id} AS key, event_id, start_ns, end_ns FROM op
    WHERE activity = 'compute'
),
missed AS (
    SELECT m.key.trace_id AS trace_id, m.event_id, covered_ns AS missed_ns, o.event_id AS missed_id
    FROM (FROM interval_covered('unused', 'computed')) AS m JOIN unused AS u USING (key, event_id)
    ASOF LEFT JOIN first_compute AS o
      ON m.key.trace_id = o.trace_id AND m.key.device_id = o.device_id AND u.end_ns > o.start_ns
),
late AS (
    SELECT c.trace_id, c.event_id, ready_ns, missed_id,
           CASE WHEN missed_ns >= hides * dur_ns THEN 'after other compute'
               WHEN is_sharded AND type = 'allgather' THEN 'sharded parameters'
               WHEN is_gradient AND is_in_row THEN 'gradients in a row'
               WHEN is_gradient AND message_bytes // bucket > 1 THEN 'large bucket'
               END AS late_by
    FROM called AS c JOIN ready AS r USING (trace_id, event_id)
    LEFT JOIN missed AS m USING (trace_id, event_id)
    LEFT JOIN framework_collectives(row_least) AS f USING (trace_id, event_id)
)
SELECT a.trace_id, a.event_id, device_id, stream, start_ns, end_ns, next_id, next_launch_id, is_recorded,
       CASE WHEN next_id IS NULL OR is_after AND next_launch_ns >= unit_end_ns THEN 'end of the unit'
           WHEN next_launch_id IS NULL THEN 'launch unknown'
           WHEN next_launched_ns + floor_ns >= end_ns
               AND (next_launched_ns >= start_ns OR NOT is_after) THEN 'late host'
           WHEN next_stream = stream THEN 'same stream'
           WHEN NOT is_after AND gap_ns <= long_ns THEN 'gaps in compute'
           WHEN is_after AND hidden_ns >= hides * dur_ns THEN 'longer than compute'
           WHEN is_awaited AND late_by IS NOT NULL THEN 'issued late'
           WHEN is_awaited THEN 'needed at once'
           ELSE 'device full or waiting' END AS reason,
       CASE WHEN reason = 'issued late' THEN late_by END AS late_by,
       CASE WHEN late_by = 'after other compute' AND reason = 'issued late' THEN missed_id END AS missed_id,
       if(reason = 'late host', next_pid, pid) AS pid, if(reason = 'late host', next_tid, tid) AS tid,
       CASE reason WHEN 'late host' THEN start_ns WHEN 'issued late' THEN ready_ns END AS since_ns,
       CASE reason WHEN 'late host' THEN next_launch_ns WHEN 'issued late' THEN launch_start_ns END
           AS until_ns
FROM awaited AS a LEFT JOIN late AS l USING (trace_id, event_id);
