-- fact: Two adjacent operators that pass an intermediate through memory.
-- needs: operator_time, replayed_work
-- of: operator_work, gpu_ops
-- scope: all
-- Elementwise work, copies, fills, and what they can be fused into: a normalization, a softmax or a reduction
-- that follows. Traces do not identify tensors: size and position imply that the second reads the first's
-- output.
CREATE TABLE fusable_pair (
    trace_id INTEGER, device_id BIGINT,
    first        VARCHAR, -- the first operator
    name         VARCHAR, -- the second
    dims         JSON,    -- its inputs
    first_op_id  BIGINT,  -- the GPU op of the first
    second_op_id BIGINT,
    intermediate BIGINT,  -- bytes
    first_bytes  BIGINT,  -- read and written by the first
    second_bytes BIGINT, first_ns BIGINT, second_ns BIGINT,
    known_from   VARCHAR -- how the second operator is known, as in all_work
);
WITH placed AS (
    SELECT trace_id, event_id, lag(event_id) OVER (
        PARTITION BY trace_id, device_id, stream ORDER BY start_ns, event_id) AS before_id
    FROM gpu_ops
),
one AS (
    SELECT *, gpu_op_ids[1] AS op_id, read_bytes + written_bytes AS moved_bytes FROM all_work
    WHERE len(gpu_op_ids) = 1 AND is_kernels
      AND kind IN ('elementwise', 'comparison', 'copy', 'fill', 'normalization', 'softmax', 'reduction')
)
SELECT s.trace_id, s.device_id, f.name, s.name, s.dims, f.op_id, s.op_id, f.written_bytes, f.moved_bytes,
       s.moved_bytes, f.busy_ns, s.busy_ns, s.known_from
FROM one AS s JOIN placed AS p ON s.trace_id = p.trace_id AND s.op_id = p.event_id
JOIN one AS f ON p.trace_id = f.trace_id AND p.before_id = f.op_id
WHERE f.kind IN ('elementwise', 'comparison', 'copy', 'fill') AND f.written_bytes > 0 AND s.kind <> 'fill'
    -- Two copies in a row move different data.
    AND NOT (f.kind = 'copy' AND s.kind = 'copy')
    AND list_contains(list_transform(list_zip(shapes_of(s.dims), texts_of(s.types)),
        lambda x: elements(x[1]) * element_bytes(x[2])), f.written_bytes)
