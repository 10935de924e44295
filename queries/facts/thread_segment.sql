-- fact: A stretch of a thread's time, cut wherever a slice begins or ends, from the trace's start to its end.
-- needs: host_thread, gap, capture_calls
-- by: walk
-- Everything inside a slice of data loading or compilation has that slice's activity.
CREATE TABLE thread_segment (
    thread INTEGER,
    segment       BIGINT,   -- grows with time; unique over all threads
    start_ns BIGINT, end_ns BIGINT,
    event_id      BIGINT,   -- the innermost slice; NULL: no slice is open
    activity_code UTINYINT  -- the thread's activity: host_activity_of()
);
