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
-- do, and so on; `hops` counts these. A receive ends with its send if it waited for it. Ranks that no such
-- path reaches are left out. `residual_ns` is the median deviation of the single differences.
CREATE OR REPLACE VIEW aligned_clocks AS
WITH RECURSIVE finish AS MATERIALIZED (
    SELECT call_key, job, trace_id, rank, max(coalesce(base_time_ns, 0) + end_ns) AS end_ns
    FROM awaited_collectives
    WHERE last_direction = 'send'
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
