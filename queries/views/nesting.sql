-- Nesting: which slice encloses which, per thread, for any layer of slices.

-- The starts and ends of `layer` (a view or table with trace_id, pid, tid, event_id, start_ns, end_ns,
-- rank) in order, each with the depth it leaves behind. Of slices that begin together the longer is the
-- outer one, then the lower rank, then the earlier in the file; slices that end together end inside out.
CREATE OR REPLACE MACRO slice_edges(layer) AS TABLE
    WITH edge AS (
        SELECT trace_id, pid, tid, event_id, start_ns AS at_ns, 1 AS step, 1 AS turn,
               start_ns - end_ns AS by_length, rank AS by_rank, event_id AS by_place
        FROM query_table(layer)
        UNION ALL
        SELECT trace_id, pid, tid, event_id, end_ns, -1, CASE WHEN end_ns > start_ns THEN 0 ELSE 2 END,
               end_ns - start_ns, -rank, -event_id
        FROM query_table(layer)
    )
    SELECT trace_id, pid, tid, event_id, at_ns, step, sum(step) OVER in_order AS depth,
           row_number() OVER in_order AS place
    FROM edge
    WINDOW in_order AS (
        PARTITION BY trace_id, pid, tid ORDER BY at_ns, turn, by_length, by_rank, by_place
        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    );

-- Each slice of `edges` (what slice_edges made) with its depth, from 1, and the slice around it.
CREATE OR REPLACE MACRO slice_parents(edges) AS TABLE
    WITH opening AS (SELECT * FROM query_table(edges) WHERE step = 1)
    SELECT child.trace_id, child.pid, child.tid, child.event_id, child.depth, parent.event_id AS parent_id
    FROM opening AS child ASOF LEFT JOIN opening AS parent
      ON child.trace_id = parent.trace_id AND child.pid = parent.pid AND child.tid = parent.tid
     AND child.depth - 1 = parent.depth AND child.place > parent.place;
