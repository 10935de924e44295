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
    SELECT trace_id, event_id,
           row_number() OVER (PARTITION BY trace_id, device_id, stream ORDER BY start_ns, event_id) AS place
    FROM gpu_ops
),
step AS (
    SELECT
        w.*, place, read_bytes + written_bytes AS moved_bytes,
        lag({'name': name, 'kind': kind, 'written': written_bytes, 'moved': read_bytes + written_bytes,
            'ns': busy_ns, 'place': place,
             'op': gpu_op_ids[1]}) OVER (
            PARTITION BY w.trace_id, device_id, stream ORDER BY place
        ) AS before
    FROM all_work AS w JOIN placed AS p ON w.trace_id = p.trace_id AND w.gpu_op_ids[1] = p.event_id
    WHERE len(gpu_op_ids) = 1 AND is_kernels
),
pair AS (
    SELECT *, before.written AS intermediate FROM step
    WHERE place = before.place + 1 AND before.kind IN ('elementwise', 'comparison', 'copy', 'fill')
        AND before.written > 0
      AND kind IN ('elementwise', 'comparison', 'copy', 'normalization', 'softmax', 'reduction')
      -- Two copies in a row move different data.
      AND NOT (before.kind = 'copy' AND kind = 'copy')
      AND list_contains(list_transform(list_zip(shapes_of(dims), texts_of(types)),
          lambda x: elements(x[1]) * element_bytes(x[2])), before.written)
)
SELECT trace_id, device_id, before.name AS first, name, dims, before.op AS first_op_id,
       gpu_op_ids[1] AS second_op_id,
       before.written AS intermediate, before.moved AS first_bytes, moved_bytes AS second_bytes,
       before.ns AS first_ns, busy_ns AS second_ns, known_from
FROM pair
