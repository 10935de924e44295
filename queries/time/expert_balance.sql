-- question: How long do a mixture of experts' kernels and its exchange of tokens take, and how even are they?
-- since: 0.1
-- params top
-- columns device_id
-- column part (text): experts (their products, or the whole layer fused), routing (choosing experts, sorting
--     tokens by expert, preparing the products, summing up) or exchange (tokens sent between devices)
-- column part_share (fraction of summed kernel time): all kernels of this part on the device, over all
--     kernels of the device; an exchange's time includes waiting for other ranks
-- columns name, operator, module
-- column placed_by (text): unit in which calls are counted: module (a call), graph (a replay) or step; NULL:
--     unknown
-- column place (count): position among the kernel's calls in that unit, from 1: layer by layer; NULL: unknown
-- column grid (text): its launch grid: other grids are other work; NULL: not recorded, or an exchange
-- columns count, total_ns, share_of_kernel_time, min_ns, p50_ns, max_ns
-- column anywhere_p50_ns (ns): p50_ns of this kernel and grid over all positions, for comparison
-- column split_calls (count): calls with recorded split sizes: rows (tokens) sent to each rank, and received
-- column sent_rows (count): rows sent
-- column received_rows (count): rows received: in a dispatch, the tokens of this rank's experts
-- column sent_imbalance_p50 (ratio): largest part sent over the mean part, median over calls; 1: even; NULL:
--     unknown
-- column sent_imbalance_max (ratio): for the most uneven call
-- column received_imbalance_p50 (ratio): the median over these calls for the parts received
-- column received_imbalance_max (ratio): for the most uneven call
-- doubts: no_gpu_ops, unlinked_gpu_ops, absurd_duration
-- Kernels are recognized by name, or because an operator of a mixture of experts launches them itself;
-- experts that run as plain products are not found. Grouped products also serve other ends, and an all-to-all
-- with split sizes also embeddings. Times at one place also differ by tokens, clocks and neighbors.
WITH called AS MATERIALIZED (
    SELECT trace_id, event_id, device_id, activity, class, name, dur_ns, start_ns, step, module_id,
           CASE WHEN known_from <> 'graph launch' THEN cpu_op END AS cpu_op,
           CASE WHEN module_from <> 'graph launch' THEN module END AS module,
           CASE WHEN is_graph THEN launch_id END AS replay_id
    FROM gpu_op_origin WHERE kind = 'kernel' AND is_asked(trace_id)
),
expert_operator AS (SELECT name FROM slice_label WHERE has(traits, 'expert_operator')),
compute AS MATERIALIZED (
    SELECT c.*, coalesce(expert, CASE WHEN cpu_op IN (FROM expert_operator)
               THEN CASE class WHEN 'gemm' THEN 'experts' ELSE 'routing' END END) AS part
    FROM called AS c JOIN gpu_op_name AS n ON n.kind = 'kernel' AND c.name = n.name
    WHERE activity = 'compute' AND part IS NOT NULL
),
exchange AS (
    SELECT trace_id, event_id, sent_sizes, received_sizes FROM collective
    WHERE name IN (SELECT name FROM gpu_op_name WHERE has(traits, 'expert_exchange'))
       OR type = 'alltoall' AND (sent_sizes IS NOT NULL OR received_sizes IS NOT NULL
           OR trace_id IN (SELECT trace_id FROM compute WHERE part = 'experts'))
),
call AS (
    SELECT *, NULL AS sent_sizes, NULL AS received_sizes FROM compute
    UNION ALL BY NAME
    SELECT c.*, 'exchange' AS part, sent_sizes, received_sizes
    FROM called AS c JOIN exchange USING (trace_id, event_id)
),
placed AS (
    SELECT c.*, CASE WHEN part <> 'exchange' THEN grid::VARCHAR END AS grid,
           CASE WHEN replay_id IS NOT NULL THEN 'graph' WHEN module_id IS NOT NULL THEN 'module'
               WHEN step IS NOT NULL THEN 'step' END AS placed_by,
           CASE WHEN placed_by IS NOT NULL THEN row_number() OVER (
               PARTITION BY c.trace_id, c.device_id, c.name, placed_by, coalesce(replay_id, module_id, step)
               ORDER BY c.start_ns, c.event_id) END AS place
    FROM call AS c JOIN kernels AS k ON c.trace_id = k.trace_id AND c.event_id = k.event_id
),
balanced AS (
    SELECT trace_id, device_id, part, name, cpu_op AS operator, module, placed_by, place,
           grid, count(*) AS count, sum(dur_ns)::BIGINT AS total_ns, min(dur_ns) AS min_ns,
           percentile(list(dur_ns), 50) AS p50_ns, max(dur_ns) AS max_ns,
           count(coalesce(sent_sizes, received_sizes)) AS split_calls,
           TRY_CAST(sum(list_sum(sent_sizes)) AS BIGINT) AS sent_rows,
           TRY_CAST(sum(list_sum(received_sizes)) AS BIGINT) AS received_rows,
           list(list_max(sent_sizes) / nullif(list_avg(sent_sizes), 0))
               FILTER (list_avg(sent_sizes) <> 0) AS sent,
           list(list_max(received_sizes) / nullif(list_avg(received_sizes), 0))
               FILTER (list_avg(received_sizes) <> 0) AS received,
           min(start_ns) AS start_ns
    FROM placed GROUP BY ALL
),
anywhere AS (
    SELECT trace_id, device_id, part, name, grid, percentile(list(dur_ns), 50) AS anywhere_p50_ns
    FROM placed GROUP BY ALL
),
device_time AS (SELECT trace_id, device_id, sum(dur_ns) AS ns FROM called GROUP BY ALL)
SELECT
    trace_id, device_id, part,
    sum(total_ns) OVER (PARTITION BY trace_id, device_id, part) / nullif(ns, 0) AS part_share,
    name, operator, module, placed_by, place, b.grid, count, total_ns,
    total_ns / nullif(ns, 0) AS share_of_kernel_time, min_ns, p50_ns, max_ns, anywhere_p50_ns, split_calls,
    sent_rows, received_rows, percentile(sent, 50) AS sent_imbalance_p50,
    list_max(sent) AS sent_imbalance_max, percentile(received, 50) AS received_imbalance_p50,
    list_max(received) AS received_imbalance_max
FROM balanced AS b JOIN anywhere AS a USING (trace_id, device_id, part, name)
JOIN device_time USING (trace_id, device_id)
WHERE a.grid IS NOT DISTINCT FROM b.grid
ORDER BY trace_id, device_id, total_ns DESC, name, start_ns
LIMIT coalesce(getvariable('top'), 20)
