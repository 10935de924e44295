-- question: Which neighbouring operators hand intermediates over through memory, and what would fusing them save?
-- param trace (integer, default all): the trace_id to look at
-- param top (integer, default 20): how many pairs
-- column trace_id (id): the trace
-- column device_id (id): the device
-- column first (text): the operator that writes the intermediate
-- column second (text): the next one on its stream, which reads it
-- column shapes (JSON): dimensions of the second one's inputs
-- column count (count): how often they follow each other so
-- column intermediate_bytes (bytes): written by the first and read back by the second, all times together
-- column gpu_ns (ns): of both operators
-- column saved_ns (ns): at most: the intermediates' share of the bytes that the two move, of gpu_ns; nothing else may read them
-- doubts: no_gpu_ops, no_shapes, unlinked_gpu_ops
-- Elementwise work, copies, fills, and what they can be fused into: a normalization, a softmax or a reduction that
-- follows. That the second reads what the first wrote is told by size and place, since traces name no tensors.
WITH work AS (FROM measured_work()),
placed AS (
    SELECT trace_id, event_id, row_number() OVER (PARTITION BY trace_id, device_id, stream ORDER BY start_ns, event_id) AS place
    FROM gpu_ops
),
step AS (
    SELECT
        w.*, place, read_bytes + written_bytes AS moved_bytes,
        lag({'name': name, 'kind': kind, 'written': written_bytes, 'read': read_bytes, 'ns': busy_ns, 'place': place}) OVER (
            PARTITION BY w.trace_id, device_id, stream ORDER BY place
        ) AS before
    FROM work AS w JOIN placed AS p ON w.trace_id = p.trace_id AND w.gpu_op_ids[1] = p.event_id
    WHERE len(gpu_op_ids) = 1 AND is_kernels
),
pair AS (
    SELECT *, before.written AS intermediate FROM step
    WHERE place = before.place + 1 AND before.kind IN ('elementwise', 'comparison', 'copy', 'fill') AND before.written > 0
      AND kind IN ('elementwise', 'comparison', 'copy', 'normalization', 'softmax', 'reduction')
      -- Two copies in a row move two things.
      AND NOT (before.kind = 'copy' AND kind = 'copy')
      AND list_contains(list_transform(list_zip(shapes_of(dims), texts_of(types)), lambda x: elements(x[1]) * element_bytes(x[2])), before.written)
)
SELECT
    trace_id, device_id, before.name AS first, name AS second, dims AS shapes, count(*) AS count,
    (2 * sum(intermediate))::BIGINT AS intermediate_bytes,
    sum(busy_ns + before.ns)::BIGINT AS gpu_ns,
    sum((busy_ns + before.ns) * least(1, 2 * intermediate / (moved_bytes + before.read + before.written)))::BIGINT AS saved_ns
FROM pair
GROUP BY trace_id, device_id, before.name, name, dims
ORDER BY saved_ns DESC, first, second
LIMIT coalesce(getvariable('top'), 20)
