-- question: Why does communication not overlap compute?
-- since: 0.1
-- param kind (text, default 'gpu_active'): gpu_active, step or trace: windows of this kind
-- columns device_id, kind
-- column name (text): the window's name
-- columns type, group_name
-- column place (text): where they are called: Python line, else module, else operator; NULL: not recorded
-- column count (count): the collectives of this type, group and place that are exposed in the window
-- column total_ns (ns): their durations
-- column exposed_ns (ns): the time in which they run and no kernel computes; where several run, it is the
--     first one's. All rows of a window add up to the exposed_ns of comm_overlap
-- column reason (text): why: see below
-- column reason_ns (ns): the part of exposed_ns with this reason; the rows of a group add up to it
-- column stretches (count): stretches with this reason
-- column wait_ns (ns): the part of reason_ns in which they probably waited for other ranks, which comes first
--     in a collective (see collective_waits); NULL: unknown
-- column because (text): what shows it; for a late host, the call that blocked it, or dispatch
-- column look_at (text): the place of that call; else of the launch of next_op
-- column event_id (id): the collective of the longest of these stretches
-- columns stream
-- column next_op (text): the op that came next on the stream of the next kernel, after that stretch
-- doubts: no_gpu_ops, no_communication, no_runtime_calls, unlinked_gpu_ops, no_stacks, absurd_duration
-- The op that comes next shows what held compute up. The first of these that holds is the reason:
--   end of the unit         none follows in its unit of work: nothing is left to hide behind
--   launch unknown          its launch is not in the trace
--   late host               it was launched when the stretch ended, or later
--   same stream             it is on the collective's own stream, which runs one thing at a time
--   gaps in compute         it starts while the collective still runs, soon after a copy or kernel before it
--   longer than compute     compute ran beside the collective for a part of it, and this is the rest
--   issued late             it waits for the collective, which could have been issued earlier: other compute
--                           ran after its input was ready, it gathers sharded parameters, or it reduces
--                           gradients in one large bucket or in a row
--   needed at once          it waits for the collective, whose input was ready no earlier
--   device full or waiting  it was launched in time: it found the device full, or waits for something that
--                           the trace does not show
-- A wait is recorded (cuda_sync events), or inferred: the op was launched before, and starts as soon as the
-- collective ends, with a call in between that makes a stream wait. Without such calls in the trace, only an
-- op that was launched right after the collective counts. What data an op needs is unknown: streams wait for
-- all work before. `host_wait` has the calls that block the host, in a database with verdicts.
WITH stretch AS MATERIALIZED (
    SELECT e.*, w.kind, w.name AS window_name, w.start_ns AS window_start_ns,
           greatest(e.start_ns, w.start_ns) AS from_ns, least(e.end_ns, w.end_ns) - from_ns AS ns
    FROM exposed_stretches(thresholds().launch_floor_ns, thresholds().wait_ns,
            thresholds().clock_tick_ns, thresholds().hidden_share, thresholds().fewest_batched,
            thresholds().bucket_bytes) AS e
    JOIN windows AS w
      ON e.trace_id = w.trace_id AND e.device_id = w.device_id AND e.start_ns < w.end_ns
          AND e.end_ns > w.start_ns
    WHERE w.kind = coalesce(getvariable('kind'), 'gpu_active')
),
-- A wait that takes half of the host's time or more.
blocked AS (
    SELECT s.trace_id, s.event_id, s.start_ns,
           arg_max(w.event_id, least(w.end_ns, until_ns) - greatest(w.start_ns, since_ns)) AS call_id
    FROM (SELECT DISTINCT trace_id, event_id, start_ns, pid, tid, since_ns, until_ns FROM stretch) AS s
    JOIN host_wait AS w ON s.trace_id = w.trace_id AND s.pid = w.pid AND s.tid = w.tid
        AND w.end_ns > since_ns AND w.start_ns < until_ns
    WHERE waits_for <> 'other thread'
    GROUP BY s.trace_id, s.event_id, s.start_ns, since_ns, until_ns
    HAVING 2 * max(least(w.end_ns, until_ns) - greatest(w.start_ns, since_ns)) >= until_ns - since_ns
),
waiting AS (SELECT trace_id, bool_or(call = 'stream_wait') AS has_waits FROM runtime_calls GROUP BY trace_id),
explained AS (
    SELECT s.*, type, group_name, p.place, c.dur_ns, l.place AS look_at, n.name AS next_op,
           row_number() OVER (PARTITION BY s.trace_id, s.event_id, window_start_ns ORDER BY s.start_ns) = 1
               AS is_first,
           CASE WHEN c.wait_ns IS NOT NULL
               THEN greatest(0, least(from_ns + ns, c.start_ns + c.wait_ns) - from_ns) END AS wait_ns,
           CASE reason WHEN 'end of the unit' THEN 'no kernel follows in its unit of work'
               WHEN 'launch unknown' THEN 'the launch of the next op is not in the trace'
               WHEN 'late host' THEN coalesce(name_of(s.trace_id, call_id), 'dispatch')
               WHEN 'same stream' THEN 'the next op is on its stream'
               WHEN 'gaps in compute' THEN 'copies and short gaps between the kernels beside it'
               WHEN 'longer than compute' THEN 'the compute beside it ends earlier'
               WHEN 'device full or waiting' THEN 'the next op was launched before, and '
                   || if(has_waits, 'no wait is known', 'the trace has no waits of streams')
               WHEN 'needed at once'
                   THEN 'the next op waits for it, ' || if(is_recorded, 'as recorded', 'by their times')
               ELSE CASE late_by WHEN 'sharded parameters' THEN 'parameters are gathered when needed'
                   WHEN 'gradients in a row' THEN 'gradients are reduced in a row, after the compute'
                   WHEN 'large bucket' THEN 'a bucket of ' || format_bytes(message_bytes)
                   ELSE coalesce('the host was in ' || name_of(s.trace_id, call_id),
                       'launched after ' || name_of(s.trace_id, missed_id)) END END AS because
    FROM stretch AS s JOIN collective AS c USING (trace_id, event_id)
    JOIN gpu_ops AS g USING (trace_id, event_id) LEFT JOIN waiting AS w USING (trace_id)
    LEFT JOIN gpu_ops AS n ON s.trace_id = n.trace_id AND s.next_id = n.event_id
    LEFT JOIN blocked AS b ON s.trace_id = b.trace_id AND s.event_id = b.event_id AND s.start_ns = b.start_ns
    LEFT JOIN call_site AS p ON s.trace_id = p.trace_id AND g.launch_id = p.event_id
    LEFT JOIN call_site AS l ON s.trace_id = l.trace_id AND coalesce(call_id, next_launch_id) = l.event_id
),
told AS (
    SELECT *, sum(ns) OVER (PARTITION BY trace_id, device_id, window_start_ns, window_name, type, group_name,
        place, reason, because, look_at) AS told_ns
    FROM explained
),
part AS (
    SELECT trace_id, device_id, kind, window_name, window_start_ns, type, group_name, place, reason,
           count_if(is_first) AS calls, sum_where(dur_ns, is_first) AS calls_ns, sum(ns)::BIGINT AS reason_ns,
           count(*) AS stretches, sum(wait_ns)::BIGINT AS wait_ns,
           arg_max({'because': because, 'look_at': look_at}, (told_ns, because, look_at)) AS said,
           arg_max({'event_id': event_id, 'stream': stream, 'next_op': next_op}, (ns, -start_ns)) AS longest
    FROM told GROUP BY ALL
)
SELECT trace_id, device_id, kind, window_name AS name, type, group_name, place,
       sum(calls) OVER same AS count, sum(calls_ns) OVER same AS total_ns,
       sum(reason_ns) OVER same AS exposed_ns,
       reason, reason_ns, stretches, wait_ns, said.because, said.look_at, longest.event_id,
       longest.stream, longest.next_op
FROM part
WINDOW same AS (PARTITION BY trace_id, device_id, window_start_ns, window_name, type, group_name, place)
ORDER BY trace_id, device_id, window_start_ns, window_name, exposed_ns DESC, type, group_name, place,
         reason_ns DESC, reason
