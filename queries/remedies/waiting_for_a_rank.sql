-- question: Which collectives take long because another rank comes late?
-- since: 0.1
-- title: Find the late rank, or the slow link
-- causes: communication
-- once: late-rank
-- is_elsewhere: true
-- when: class = 'communication'
-- effort: medium
-- needs: The traces of all ranks, loaded together: they show which one comes last. The cure is on that rank's
--     own list: tracekit advise on its trace.
-- caveat: From one rank alone, a wait is an estimate: a collective may also be slow because other work uses
--     the links or the device, or because the transport is a slow one (NCCL_DEBUG=INFO tells which it is).
-- before:
--     # one rank reads, logs or evaluates while the others wait in the next collective
--     if rank == 0:
--         writer.add_scalar("loss", loss.item(), step)
-- after:
--     if rank == 0 and step % 100 == 0:
--         writer.add_scalar("loss", loss.item(), step)
--     # uneven batches: DistributedSampler(drop_last=True), sequences of like length together
-- risks: If a rank is late at random (thermal limits, a noisy neighbor), the program is not at fault.
-- check: tracekit load rank*.json -o job.duckdb; tracekit query job.duckdb stragglers; tracekit query
--     collective_skew job.duckdb
-- sources: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/usage/collectives.html
--     https://arxiv.org/abs/2505.05713
-- doubts: no_gpu_ops, no_communication, one_rank, absurd_duration
-- With several ranks, the wait is measured as in collective_skew; with one, estimated as in `collective`, or
-- by the link: within a machine, all data passes twice over the slowest link of today in less time. If all
-- calls take about as much longer, a slow link is as likely as a rank that is late each time.
-- A rank's first wait does not count as far as the last rank's recording began later than its own. Nor does
-- a wait for another stage of the rank's pipeline, which comes at another time by design: ranks that send to
-- each other both ways are stages, and the sides on which a rank has such a partner tell its stage.
WITH exchange AS (
    SELECT DISTINCT trace_id, rank, direction, regexp_extract_all(group_key, '\d+') AS ends,
           ends[CASE direction WHEN 'send' THEN 2 ELSE 1 END]::BIGINT AS partner
    FROM collective AS c JOIN matched_collective AS m USING (trace_id, event_id) WHERE direction IS NOT NULL
),
stage AS (
    SELECT trace_id, list(partner) AS partners,
           1 + count_if(partner > rank) - count_if(partner < rank) AS side
    FROM (SELECT trace_id, rank, partner FROM exchange GROUP BY ALL HAVING count(*) = 2) GROUP BY trace_id
),
met AS (
    SELECT trace_id, event_id, rank, c.dur_ns, arg_min(rank, c.dur_ns) OVER same AS late_rank,
           c.end_ns - s.start_ns AS since_ns,
           greatest(0, since_ns - arg_min(since_ns, c.dur_ns) OVER same)
               * (c.start_ns = min(c.start_ns) OVER (PARTITION BY trace_id))::INTEGER AS skew_ns,
           min(c.dur_ns) OVER same + skew_ns AS wire_ns,
           min(trace_id) OVER same < max(trace_id) OVER same AS is_matched,
           list_has_any(partners, integers_of(group_ranks)) AS meets_partner,
           meets_partner OR min(coalesce(side, 1)) OVER same < max(coalesce(side, 1)) OVER same AS is_drain
    FROM collective AS c JOIN matched_collective AS m USING (trace_id, event_id)
    JOIN trace_span AS s USING (trace_id) LEFT JOIN stage USING (trace_id) WHERE direction IS NULL
    WINDOW same AS (PARTITION BY job, group_key, matched_by,
        CASE WHEN m.sequence IS NULL THEN step END, place, c.type)
),
waiting AS (
    SELECT t.trace_id, t.event_id, t.pid, t.tid, t.start_ns, t.dur_ns, wait_ns, message_bytes, is_matched,
           CASE WHEN is_matched THEN wire_ns
                ELSE least(t.dur_ns - wait_ns, CASE WHEN group_size <= thresholds().node_ranks
                    THEN thresholds().small_message_ns
                        + 2e9 * message_bytes / thresholds().host_link_bytes_per_s END) END AS wire_ns,
           CASE WHEN is_matched THEN 'rank ' || late_rank ELSE type || coalesce(', group ' || group_name, '')
               END AS place
    FROM collective AS t JOIN met AS m USING (trace_id, event_id)
    WHERE is_asked(trace_id) AND NOT coalesce(is_drain, FALSE) AND (NOT is_matched OR late_rank <> rank)
)
SELECT trace_id, place,
       CASE WHEN is_matched THEN 'comes last in ' || count(*) OVER same
           WHEN 2 * sum(wait_ns) OVER same < sum(t.dur_ns - wire_ns) OVER same
               THEN format('{:.1f} GB/s in every call: check the transport first',
                   arg_max(message_bytes / t.dur_ns, message_bytes) OVER same)
           ELSE 'an estimate from one rank' END AS detail,
       'op' AS target, event_id, pid, tid, start_ns, dur_ns, wire_ns / dur_ns AS factor
FROM waiting AS t WHERE wire_ns < dur_ns
WINDOW same AS (PARTITION BY trace_id, place)
