-- fact: A slice of the host in the tree of its thread.
-- needs: host_thread, gpu_op_launch, gap
-- by: walk
CREATE TABLE thread_slice (
    thread INTEGER, event_id BIGINT,
    depth     INTEGER, -- from 1
    parent_id BIGINT,  -- the slice around it; NULL: none
    self_ns   BIGINT   -- time not spent in inner slices
);
