-- fact: A collective's kernel with the same collective on other ranks of its job, and who waited for whom.
-- needs: judged_steps
-- of: collective
-- scope: all
-- Collectives are matched by their sequence number in the group if the trace has one, else by their position
-- among the group's collectives in the step (or the trace). A send belongs to a receive: both are
-- matched by their position among those from one rank to another, because each rank counts its own sends and
-- receives. If the other rank is unknown (as when several sends and receives are one kernel), they are left
-- out. Each ends everywhere at nearly the same time, so a rank waits for as long as its kernel takes longer
-- than the shortest one, which is that of the rank that arrived last.
CREATE TABLE matched_collective (
    trace_id INTEGER, event_id BIGINT, -- the kernel
    job             INTEGER, -- the first trace of the job
    rank BIGINT,
    base_time_ns    BIGINT,  -- of its trace
    sequence        BIGINT,  -- as in collective; NULL of a send or receive
    group_key       VARCHAR, -- the group, or the two ranks of a send and its receive
    step BIGINT,
    matched_by      VARCHAR, -- sequence number, place in step or place in trace
    place           BIGINT,  -- its number in the group, or its position there
    type VARCHAR, dur_ns BIGINT,
    ranks_seen      BIGINT,  -- the number of ranks in the database that took part
    wire_ns         BIGINT,  -- the shortest kernel of all ranks
    place_by_length BIGINT,  -- 1: the shortest
    last_trace_id   INTEGER, -- this rank arrived last: its kernel is the shortest
    last_rank BIGINT, last_direction VARCHAR,
    awaited_ns      BIGINT   -- total wait of all ranks for that rank
);
WITH met AS (
    SELECT c.trace_id, event_id, job, rank, base_time_ns, direction, type, collective, group_size,
           start_ns, dur_ns, c.launch_start_ns, communicator, group_name, group_ranks,
           CASE WHEN direction IS NULL THEN sequence END AS sequence,
           coalesce(peer_rank, CASE WHEN len(integers_of(group_ranks)) = 2 THEN
               list_filter(integers_of(group_ranks), lambda member: member <> rank)[1] END) AS other_rank
    FROM collective AS c JOIN trace USING (trace_id) JOIN jobs USING (trace_id)
),
stepped AS (
    SELECT c.*,
           CASE direction WHEN 'send' THEN concat('from rank ', rank, ' to rank ', other_rank)
               WHEN 'receive' THEN concat('from rank ', other_rank, ' to rank ', rank)
               ELSE coalesce(communicator, nullif(concat_ws(' ', group_name, group_ranks), ''), 'unknown') END
               AS group_key,
           CASE WHEN c.launch_start_ns < s.end_ns THEN s.step END AS step
    FROM met AS c
    ASOF LEFT JOIN steps AS s ON c.trace_id = s.trace_id AND c.launch_start_ns >= s.start_ns
    WHERE CASE WHEN direction IS NULL THEN type <> 'sendrecv' OR collective IS NULL OR group_size = 2
              ELSE other_rank IS NOT NULL AND rank IS NOT NULL END
),
placed AS (
    SELECT *, CASE WHEN sequence IS NOT NULL THEN 'sequence number' WHEN step IS NOT NULL THEN 'place in step'
                   ELSE 'place in trace' END AS matched_by,
           coalesce(sequence,
               row_number() OVER (PARTITION BY trace_id, group_key, step, type ORDER BY start_ns, event_id))
               AS place
    FROM stepped
)
SELECT trace_id, event_id, job, rank, base_time_ns, sequence, group_key, step, matched_by, place, type,
       dur_ns, count(*) OVER same AS ranks_seen, min(dur_ns) OVER same AS wire_ns,
       row_number() OVER shortest AS place_by_length,
       first_value(trace_id) OVER shortest AS last_trace_id, first_value(rank) OVER shortest AS last_rank,
       first_value(direction) OVER shortest AS last_direction,
       (sum(dur_ns) OVER same - ranks_seen * wire_ns)::BIGINT AS awaited_ns
FROM placed
WINDOW same AS (PARTITION BY job, group_key, matched_by, CASE WHEN sequence IS NULL THEN step END, place,
                    type),
       shortest AS (same ORDER BY dur_ns, rank)
