-- fact: A collective's kernel, with what the trace records about it.
-- needs: thread_slice, gpu_timeline
-- of: gpu_ops
-- when: class = 'communication'
-- A collective's arguments (https://github.com/pytorch/pytorch/blob/main/torch/csrc/profiler/util.h) are on
-- the kernel, on the operator that launched it (record_param_comms), or in the annotations of the graph that
-- ran it; NCCL's own ranges have its size and communicator. Bandwidths are of `message_bytes`.
--
-- `wait_ns` is an estimate from one rank: a collective ends on all ranks at about the same time, so the
-- shortest call of the same type, group and size waited least. The rest of a call is probably waiting for
-- other ranks, or for links and SMs in use by others. So is a call's time beyond a slow message's latency
-- and the time in which its data passes twice over the slowest link. The larger counts. It is a lower bound;
-- NULL if the size is unknown, or if the only such call is no longer than that.
CREATE TABLE collective (
    trace_id INTEGER, event_id BIGINT, -- the kernel
    device_id BIGINT, stream BIGINT, name VARCHAR, start_ns BIGINT, end_ns BIGINT, dur_ns BIGINT,
    launch_start_ns BIGINT,
    pid           BIGINT,   -- the process and thread that launched it
    tid BIGINT,
    scope         VARCHAR,  -- the framework's range around the launch
    collective    VARCHAR,  -- its name, as c10 gives it
    type          VARCHAR,  -- allreduce, allgather ...
    dtype VARCHAR, in_elements BIGINT, out_elements BIGINT,
    group_size    BIGINT,   -- ranks
    group_name VARCHAR, group_ranks VARCHAR, communicator VARCHAR,
    sequence      BIGINT,   -- its number in the group
    direction     VARCHAR,  -- send or receive
    peer_rank BIGINT,
    sent_sizes    BIGINT[], -- rows to each rank
    received_sizes BIGINT[],
    message_bytes BIGINT,   -- the larger side of the exchange
    algorithm VARCHAR, protocol VARCHAR,
    exposed_ns    BIGINT,   -- time that no compute kernel of its device covers
    alike_count   BIGINT,   -- calls of the same type, group and size
    wait_ns       BIGINT    -- time beyond the shortest of these, or beyond the slowest link's
);
WITH scope AS (
    -- Ranges that the framework opens around collectives: the last one opened around the launch has the type.
    SELECT trace_id, pid, tid, name, start_ns, end_ns, args FROM slices
    WHERE has(traits, 'collective_call') AND kind <> 'python' AND name <> 'record_param_comms'
),
communication_kernel AS (
    SELECT
        g.trace_id, g.event_id, g.device_id, g.stream, g.name, g.start_ns, g.end_ns, g.dur_ns,
        g.launch_start_ns, g.pid, g.tid,
        CASE WHEN k.args->>'Collective name' IS NOT NULL THEN k.args
            WHEN o.args->>'Collective name' IS NOT NULL THEN o.args ELSE n.annotation END AS args
    FROM gpu_ops AS g JOIN event_row AS k ON g.trace_id = k.trace_id AND g.event_id = k.event_id
    LEFT JOIN thread_slice AS h ON g.trace_id = h.trace_id AND g.launch_id = h.event_id
    LEFT JOIN event_row AS o ON h.trace_id = o.trace_id AND h.cpu_op_id = o.event_id
    LEFT JOIN (SELECT trace_id, node_id, any_value(annotation) AS annotation FROM graph_annotation
        WHERE annotation->>'Collective name' IS NOT NULL GROUP BY ALL) AS n
      ON g.trace_id = n.trace_id AND graph_node_id(k.args) = n.node_id
    WHERE g.activity = 'communication'
),
scoped AS (
    SELECT t.*, CASE WHEN t.launch_start_ns < s.end_ns THEN s.name END AS scope,
           -- Parsed once.
           CASE WHEN t.launch_start_ns < s.end_ns THEN json_extract(s.args, ['Input Dims', 'Input type',
               'Message size [bytes]', 'NCCL communicator ID']) END AS scope_args,
           t.args->>'Collective name' AS collective
    FROM communication_kernel AS t ASOF LEFT JOIN scope AS s
      ON t.trace_id = s.trace_id AND t.pid = s.pid AND t.tid = s.tid AND t.launch_start_ns >= s.start_ns
),
typed AS (
    SELECT
        *, coalesce(collective_type(collective), collective_type(scope), collective_type(name),
            'other') AS type,
        args->>'dtype' AS dtype, TRY_CAST(args->>'In msg nelems' AS BIGINT) AS in_elements,
        TRY_CAST(args->>'Out msg nelems' AS BIGINT) AS out_elements,
        TRY_CAST(args->>'Group size' AS BIGINT) AS group_size,
        coalesce(args->>'Process Group Name', args->>'Process Group ID') AS group_name,
        nullif(args->>'Process Group Ranks', '[]') AS group_ranks,
        coalesce(args->>'Comms Id', scope_args[4]->>'$') AS communicator,
        TRY_CAST(args->>'Seq' AS BIGINT) AS sequence,
        CASE lower(args->>'Collective name') WHEN 'send' THEN 'send' WHEN 'recv' THEN 'receive' END
            AS direction,
        -- PyTorch 2.6 and later record the other rank of a send or receive.
        coalesce(TRY_CAST(args->>'Dst Rank' AS BIGINT), TRY_CAST(args->>'Src Rank' AS BIGINT)) AS peer_rank,
        -- In rows. c10 writes [] for equal parts, and cuts lists of more than 30; both are NULL.
        -- https://github.com/pytorch/pytorch/blob/main/torch/csrc/profiler/util.cpp
        list_transform([args->>'In split size', args->>'Out split size'], lambda text: CASE
            WHEN list_count(integers_of(text)) = nullif(len(integers_of(text)), 0) THEN integers_of(text)
            END) AS sizes, sizes[1] AS sent_sizes, sizes[2] AS received_sizes,
        coalesce(list_max(list_transform(
            list_zip(shapes_of(scope_args[1]), texts_of(scope_args[2])),
            lambda x: elements(x[1]) * element_bytes(x[2])
        ))::BIGINT, TRY_CAST(scope_args[3]->>'$' AS BIGINT)) AS scope_bytes
    FROM scoped
),
chosen AS MATERIALIZED (
    SELECT
        * EXCLUDE (args, scope_args, scope_bytes, sizes),
        coalesce(greatest(in_elements, out_elements) * CASE   -- by c10's name of the type, or torch's
            WHEN dtype IN ('Float', 'Int', 'UInt32', 'float32', 'int32', 'uint32') THEN 4
            WHEN dtype IN ('BFloat16', 'Half', 'Short', 'UInt16', 'bfloat16', 'float16', 'int16') THEN 2
            WHEN dtype IN ('Double', 'Long', 'UInt64', 'ComplexFloat', 'float64', 'int64', 'complex64') THEN 8
            WHEN dtype IN ('Byte', 'Char', 'Bool', 'uint8', 'int8', 'bool') OR dtype ILIKE 'float8%'
                OR dtype ILIKE 'float4%' THEN 1
            WHEN dtype = 'ComplexDouble' THEN 16 END, scope_bytes) AS message_bytes,
        upper(nullif(regexp_extract(
            name, '(?i)_(RING|TREE|COLLNET_?\w*?|NVLS_?TREE|NVLS|PAT)(_|$|\()', 1), '')) AS algorithm,
        upper(nullif(regexp_extract(name, '(?i)_(LL128|LL|SIMPLE)(_|$|\()', 1), '')) AS protocol
    FROM typed
),
call AS (SELECT {'trace_id': trace_id, 'device_id': device_id} AS key, event_id, start_ns, end_ns
    FROM chosen),
-- The device communicates while no compute kernel runs.
communicating AS (SELECT {'trace_id': trace_id, 'device_id': device_id} AS key, start_ns, end_ns
    FROM gpu_timeline WHERE activity = 'communication'),
covered AS (FROM interval_covered('call', 'communicating'))
SELECT c.*, covered_ns AS exposed_ns, count(*) OVER alike AS alike_count,
       CASE WHEN message_bytes IS NOT NULL THEN greatest(
           CASE WHEN alike_count > 1 THEN c.dur_ns - min(c.dur_ns) OVER alike END,
           nullif(greatest(0, c.dur_ns - thresholds().slow_message_ns - round(
               2e9 * message_bytes / thresholds().slowest_link_bytes_per_s)::BIGINT), 0)) END AS wait_ns
FROM chosen AS c JOIN covered AS i ON c.event_id = i.event_id AND c.trace_id = i.key.trace_id
WINDOW alike AS (PARTITION BY c.trace_id, c.device_id, type, group_name, group_size, dtype, message_bytes,
    algorithm, protocol)
