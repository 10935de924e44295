-- fact: An operator with its work.
-- of: operator_call, operator_name
CREATE TABLE operator_work (
    trace_id      INTEGER, -- the trace
    event_id      BIGINT,  -- the operator's event
    name VARCHAR, pid BIGINT, tid BIGINT, start_ns BIGINT, end_ns BIGINT, dur_ns BIGINT,
    kind          VARCHAR, -- of work
    dims JSON, types JSON,
    is_matrix     BOOLEAN, -- it runs on the units for matrix products
    peak          VARCHAR, -- the number format whose peak applies
    flops         DOUBLE,  -- a multiply-add is two
    read_bytes    BIGINT,  -- at least
    written_bytes BIGINT   -- at least
);
WITH shape AS (
    SELECT * FROM (SELECT DISTINCT name, kind, dims, types, concrete FROM scratch.operator_call)
    JOIN scratch.operator_name USING (name, kind)
),
work AS (
    SELECT *, peak_name(type) AS peak FROM shape_work('shape')
    WHERE read_bytes IS NOT NULL AND written_bytes IS NOT NULL
)
SELECT c.trace_id, c.event_id, c.name, c.pid, c.tid, c.start_ns, c.end_ns, c.dur_ns, c.kind, c.dims, c.types,
       is_matrix, peak, flops, read_bytes, written_bytes
FROM scratch.operator_call AS c JOIN work AS w
  ON c.name = w.name AND c.dims = w.dims AND c.types IS NOT DISTINCT FROM w.types
    AND c.concrete IS NOT DISTINCT FROM w.concrete
