-- question: How far do the clocks of the ranks differ, by the ends of their collectives?
-- since: 0.1
-- of: several traces
-- column trace_id (id): the trace; traces that share no collective with others are left out
-- columns rank
-- column offset_ns (ns): how far its clock is ahead of the first rank's: median over collectives
-- column residual_ns (ns): median deviation from offset_ns: large if collectives end apart or clocks drift
-- column compared (count): number of compared collectives; 0: the first rank
-- column hops (count): 1: compared with the first rank; 2: with ranks that were compared with it, and so on
-- column begins_ns (ns): start of its recording minus the first rank's, on one clock
-- doubts: no_communication, one_rank
-- Only collectives that no rank leaves before all have entered: see aligned_clocks in views/collectives.sql.
WITH begin AS (
    SELECT trace_id, job, rank, hops, coalesce(base_time_ns, 0) - offset_ns + start_ns AS at_ns, offset_ns,
           residual_ns, compared
    FROM aligned_clocks JOIN jobs USING (trace_id) JOIN trace USING (trace_id)
    JOIN trace_span USING (trace_id)
)
SELECT trace_id, rank, offset_ns, residual_ns, compared, hops,
       at_ns - first_value(at_ns) OVER (PARTITION BY job ORDER BY hops) AS begins_ns
FROM begin ORDER BY rank, trace_id
