-- question: What is HTA's communication-computation overlap?
-- since: 0.1
-- column comm_ns (ns): union of ops of type COMMUNICATION by their names
-- column overlap_ns (ns): the part of it during which COMPUTATION ran too
-- column overlap_percent (percent of comm_ns): overlap_ns over comm_ns, to two decimals; NULL: no
--     communication
-- HTA calls this get_comm_comp_overlap and prints only the percentage.
WITH total AS (
    SELECT trace_id, sum_where(end_ns - start_ns, kernel_type = 'COMMUNICATION') AS comm_ns
    FROM hta_intervals WHERE kernel_type <> 'ANY' GROUP BY trace_id
),
overlap AS (
    SELECT trace_id, sum(end_ns - start_ns)::BIGINT AS overlap_ns FROM hta_running
    WHERE types & 3 = 3 GROUP BY trace_id
)
SELECT
    trace_id, comm_ns, coalesce(overlap_ns, 0) AS overlap_ns,
    round_even(100 * (coalesce(overlap_ns, 0)::DOUBLE / nullif(comm_ns, 0)), 2) AS overlap_percent
FROM total LEFT JOIN overlap USING (trace_id)
ORDER BY trace_id
