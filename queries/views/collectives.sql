-- Communication between devices: one row per collective kernel, with what the trace records about it.

-- The word, out of the alternatives of a regular expression, that a kernel's name has between underscores.
CREATE OR REPLACE MACRO part_of_name(name, words) AS
    upper(nullif(regexp_extract(name, '(?i)_(' || words || ')(_|$|\()', 1), ''));

-- Bytes per element, by c10's name of the type.
CREATE OR REPLACE MACRO message_element_bytes(dtype) AS CASE
    WHEN dtype IN ('Float', 'Int', 'UInt32') THEN 4
        WHEN dtype IN ('BFloat16', 'Half', 'Short', 'UInt16') THEN 2
        WHEN dtype IN ('Double', 'Long', 'UInt64', 'ComplexFloat') THEN 8
    WHEN dtype IN ('Byte', 'Char', 'Bool') OR dtype LIKE 'Float8%' OR dtype LIKE 'Float4%' THEN 1
        WHEN dtype = 'ComplexDouble' THEN 16 END;

-- nccl-tests' factor from algorithm bandwidth (what one rank sees) to bus bandwidth (what the slowest link
-- carries), in a group of n ranks.
-- https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
CREATE OR REPLACE MACRO bus_factor(type, n) AS CASE
    WHEN type = 'allreduce' THEN 2 * (n - 1) / n
        WHEN type IN ('allgather', 'reducescatter', 'alltoall', 'scatter', 'gather') THEN (n - 1) / n
    WHEN type IN ('broadcast', 'reduce', 'sendrecv') THEN 1 END;

-- The sizes, in rows, of the parts that an all-to-all sends to or receives from each rank. c10 writes [] for
-- equal parts, and cuts lists of more than 30; both are NULL.
-- https://github.com/pytorch/pytorch/blob/main/torch/csrc/profiler/util.cpp
CREATE OR REPLACE MACRO split_sizes(text) AS CASE
    WHEN list_count(integers_of(text)) = nullif(len(integers_of(text)), 0) THEN integers_of(text) END;
-- How uneven they are: the largest over the mean; 1 is even, their number is all in one.
CREATE OR REPLACE MACRO imbalance(sizes) AS list_max(sizes) / nullif(list_avg(sizes), 0);

-- A collective's arguments (https://github.com/pytorch/pytorch/blob/main/torch/csrc/profiler/util.h) are on
-- the kernel, or on the operator that launched it (record_param_comms). Bandwidths are computed from
-- `message_bytes`, the larger side of the exchange.
CREATE OR REPLACE MACRO collectives() AS TABLE
WITH scope AS (
    -- Ranges that the framework opens around collectives: the last one opened around the launch has the type.
    SELECT trace_id, pid, tid, name, start_ns, end_ns, args FROM slices
    WHERE has(traits, 'collective_call') AND kind <> 'python' AND name <> 'record_param_comms'
),
told AS (
    SELECT
        g.trace_id, g.event_id, g.device_id, g.stream, g.name, g.start_ns, g.end_ns, g.dur_ns,
        l.launch_start_ns, l.pid, l.tid,
        CASE WHEN k.args->>'Collective name' IS NOT NULL THEN k.args
            WHEN o.args->>'Collective name' IS NOT NULL THEN o.args END AS args
    FROM gpu_ops AS g JOIN event_row AS k ON g.trace_id = k.trace_id AND g.event_id = k.event_id
    LEFT JOIN gpu_op_launch AS l ON g.trace_id = l.trace_id AND g.event_id = l.event_id
    LEFT JOIN host_site AS h ON l.trace_id = h.trace_id AND l.launch_id = h.event_id
    LEFT JOIN event_row AS o ON h.trace_id = o.trace_id AND h.cpu_op_id = o.event_id
    WHERE g.activity = 'communication'
),
scoped AS (
    SELECT t.*, CASE WHEN t.launch_start_ns < s.end_ns THEN s.name END AS scope,
           CASE WHEN t.launch_start_ns < s.end_ns THEN s.args END AS scope_args
    FROM told AS t ASOF LEFT JOIN scope AS s
      ON t.trace_id = s.trace_id AND t.pid = s.pid AND t.tid = s.tid AND t.launch_start_ns >= s.start_ns
),
typed AS (
    SELECT
        *, args->>'Collective name' AS collective,
        coalesce(collective_type(args->>'Collective name'), collective_type(scope), collective_type(name),
            'other') AS type,
        args->>'dtype' AS dtype, TRY_CAST(args->>'In msg nelems' AS BIGINT) AS in_elements,
        TRY_CAST(args->>'Out msg nelems' AS BIGINT) AS out_elements,
        TRY_CAST(args->>'Group size' AS BIGINT) AS group_size,
        coalesce(args->>'Process Group Name', args->>'Process Group ID') AS group_name,
        nullif(args->>'Process Group Ranks', '[]') AS group_ranks, args->>'Comms Id' AS communicator,
        TRY_CAST(args->>'Seq' AS BIGINT) AS sequence,
        CASE lower(args->>'Collective name') WHEN 'send' THEN 'send' WHEN 'recv' THEN 'receive' END
            AS direction,
        -- PyTorch 2.6 and later tell the other rank of a send or receive.
        coalesce(TRY_CAST(args->>'Dst Rank' AS BIGINT), TRY_CAST(args->>'Src Rank' AS BIGINT)) AS peer_rank,
        split_sizes(args->>'In split size') AS sent_sizes,
        split_sizes(args->>'Out split size') AS received_sizes,
        list_max(list_transform(
            list_zip(shapes_of(scope_args->'Input Dims'), texts_of(scope_args->'Input type')),
            lambda x: elements(x[1]) * element_bytes(x[2])
        ))::BIGINT AS scope_bytes
    FROM scoped
)
SELECT
    * EXCLUDE (args, scope_args, scope_bytes),
    coalesce(greatest(in_elements, out_elements) * message_element_bytes(dtype),
        scope_bytes) AS message_bytes,
    part_of_name(name, 'RING|TREE|COLLNET_?\w*?|NVLS_?TREE|NVLS|PAT') AS algorithm,
    part_of_name(name, 'LL128|LL|SIMPLE') AS protocol
FROM typed;

-- Collectives with `exposed_ns`, the time that no compute kernel of their device covers, and `wait_ns`, an
-- estimate from one rank: a collective ends on all ranks at about the same time, so the shortest call of
-- the same type, group and size waited least. What a call takes beyond that is probably waiting for other
-- ranks, or for links and SMs that others use. It is a lower bound where even the shortest call waited;
-- NULL where the trace does not tell the size, or has one such call only.
CREATE OR REPLACE MACRO timed_collectives() AS TABLE
WITH chosen AS MATERIALIZED (FROM collectives() WHERE trace_id = coalesce(getvariable('trace'), trace_id)),
call AS (SELECT {'trace_id': trace_id, 'device_id': device_id} AS key, event_id, start_ns, end_ns
    FROM chosen),
compute AS (SELECT {'trace_id': trace_id, 'device_id': device_id} AS key, start_ns, end_ns FROM gpu_ops
    WHERE activity = 'compute'),
covered AS (FROM interval_covered('call', 'compute'))
SELECT c.*, c.dur_ns - covered_ns AS exposed_ns, count(*) OVER alike AS alike_count,
       CASE WHEN message_bytes IS NOT NULL AND alike_count > 1 THEN c.dur_ns - min(c.dur_ns) OVER alike
           END AS wait_ns
FROM chosen AS c JOIN covered AS i ON c.event_id = i.event_id AND c.trace_id = i.key.trace_id
WINDOW alike AS (PARTITION BY c.trace_id, c.device_id, type, group_name, group_size, dtype, message_bytes,
    algorithm, protocol);

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

-- The same collective on all ranks that took part, matched by its sequence number in its group where the
-- trace has one, else by its position among the group's collectives in the profiler step (or the trace). A
-- send belongs to a receive: both are matched by their position among those from one rank to another, because
-- each rank counts its own sends and receives. Where the other rank is not known (as of several sends and
-- receives that are one kernel), they are left out.
CREATE OR REPLACE MACRO matched_collectives() AS TABLE
WITH collective AS (
    SELECT c.* REPLACE (CASE WHEN direction IS NULL THEN sequence END AS sequence), job, rank, base_time_ns,
           coalesce(peer_rank, CASE WHEN len(integers_of(group_ranks)) = 2 THEN
               list_filter(integers_of(group_ranks), lambda member: member <> rank)[1] END) AS other_rank
    FROM collectives() AS c JOIN trace USING (trace_id) JOIN jobs USING (trace_id)
),
stepped AS (
    SELECT c.* EXCLUDE other_rank,
           CASE direction WHEN 'send' THEN concat('from rank ', rank, ' to rank ', other_rank)
               WHEN 'receive' THEN concat('from rank ', other_rank, ' to rank ', rank)
               ELSE coalesce(communicator, nullif(concat_ws(' ', group_name, group_ranks), ''), 'unknown') END
               AS group_key,
           CASE WHEN c.launch_start_ns < s.end_ns THEN s.step END AS step
    FROM collective AS c
    ASOF LEFT JOIN steps AS s ON c.trace_id = s.trace_id AND c.launch_start_ns >= s.start_ns
    WHERE CASE WHEN direction IS NULL THEN type <> 'sendrecv' OR collective IS NULL OR group_size = 2
              ELSE other_rank IS NOT NULL AND rank IS NOT NULL END
)
SELECT
    *, CASE WHEN sequence IS NOT NULL THEN 'sequence number' WHEN step IS NOT NULL THEN 'place in step'
        ELSE 'place in trace' END AS matched_by,
    coalesce(sequence,
        row_number() OVER (PARTITION BY trace_id, group_key, step, type ORDER BY start_ns, event_id)) AS place
FROM stepped;

-- The matched collectives that several ranks of the database took part in. Each ends everywhere at nearly the
-- same time, so a rank waits for as long as its kernel takes longer than the shortest one (`wire_ns`), which
-- is that of the rank that came last. `awaited_ns` is what all ranks together waited for that rank, and
-- `call_key` tells one collective from another.
CREATE OR REPLACE MACRO awaited_collectives() AS TABLE
SELECT *, dur_ns - wire_ns AS wait_ns, (sum(dur_ns) OVER same - ranks_seen * wire_ns)::BIGINT AS awaited_ns,
       place_by_length = 1 AS is_last
FROM (
    SELECT *, {'job': job, 'group_key': group_key, 'matched_by': matched_by,
               'step': CASE WHEN sequence IS NULL THEN step END, 'place': place, 'type': type} AS call_key,
           count(*) OVER same AS ranks_seen, min(dur_ns) OVER same AS wire_ns,
           row_number() OVER shortest AS place_by_length,
           first_value(trace_id) OVER shortest AS last_trace_id, first_value(rank) OVER shortest AS last_rank,
           first_value(direction) OVER shortest AS last_direction
    FROM matched_collectives()
    WINDOW same AS (PARTITION BY job, group_key, matched_by, CASE WHEN sequence IS NULL THEN step END, place,
                        type),
           shortest AS (same ORDER BY dur_ns, rank)
)
WHERE ranks_seen > 1
WINDOW same AS (PARTITION BY call_key);

-- Whether each rank leaves a collective of this type only after all ranks have entered it. A broadcast's
-- sender, for one, may leave before.
CREATE OR REPLACE MACRO ends_together(type) AS
    type IN ('allreduce', 'allgather', 'reducescatter', 'alltoall', 'barrier');

-- How far each rank's clock is ahead of the clock of its job's first rank. A collective ends on all its ranks
-- at the same time, so that is the median over collectives of the differences of their ends. A rank that
-- shares no collective with the first is compared with ranks that do, and so on; `hops` counts these. A
-- receive ends with its send where it waited for it. Ranks that no such path reaches are left out.
-- `residual_ns` is the median of what the single differences deviate.
CREATE OR REPLACE MACRO aligned_clocks() AS TABLE
WITH RECURSIVE finish AS MATERIALIZED (
    SELECT call_key, job, trace_id, rank, max(coalesce(base_time_ns, 0) + end_ns) AS end_ns
    FROM awaited_collectives() WHERE ends_together(type) OR last_direction = 'send' GROUP BY ALL
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
