-- fact: A slice of the host in the tree of its thread, with its call site.
-- needs: host_thread, gap, capture_calls
-- by: walk
CREATE TABLE thread_slice (
    thread INTEGER, trace_id INTEGER, event_id BIGINT,
    depth       INTEGER, -- from 1
    parent_id   BIGINT,  -- the slice around it; NULL: none
    self_ns     BIGINT,  -- time not spent in inner slices
    cpu_op_id   BIGINT,  -- the innermost operator that it is or is inside; NULL: none
    outer_op_id BIGINT,  -- the outermost one
    python_id   BIGINT,  -- the innermost Python frame that it is or is inside
    line_id     BIGINT,  -- the innermost of these that is a line of the program
    module_id   BIGINT,  -- the innermost module around it
    op_label    BIGINT,  -- the label of cpu_op_id
    place_label BIGINT   -- the label of its call site: of line_id, else of module_id, else of outer_op_id
);
