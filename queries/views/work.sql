-- The work of operators: its parts, and the views that read it.

-- Bytes of an element by its type's name in a trace (c10::ScalarType, or C++'s own); NULL: not a tensor.
CREATE OR REPLACE MACRO element_bytes(type) AS CASE
    WHEN type IN ('float', 'int', 'unsigned int', 'c10::UInt32', 'c10::complex<c10::Half>') THEN 4
    WHEN type IN ('c10::BFloat16', 'c10::Half', 'short int', 'short', 'unsigned short', 'c10::UInt16') THEN 2
    WHEN type IN ('double', 'long int', 'long', 'long long', 'unsigned long', 'c10::complex<float>') THEN 8
    WHEN type IN ('bool', 'unsigned char', 'signed char', 'char', 'c10::qint8', 'c10::quint8')
        OR type LIKE 'c10::Float8%' OR type LIKE 'c10::Float4%' THEN 1
    WHEN type = 'c10::complex<double>' THEN 16 END;

-- The name of the peak (hardware.toml) with which a matrix product of such elements is compared. Only the
-- kernel shows in which format fp32 is multiplied: see the trait tf32.
CREATE OR REPLACE MACRO peak_name(type) AS CASE
    WHEN type = 'c10::BFloat16' THEN 'bf16' WHEN type = 'c10::Half' THEN 'fp16'
        WHEN type = 'float' THEN 'fp32'
        WHEN type = 'double' THEN 'fp64'
    WHEN type LIKE 'c10::Float8%' THEN 'fp8' WHEN type LIKE 'c10::Float4%' THEN 'fp4'
    WHEN type IN ('signed char', 'char', 'unsigned char') THEN 'int8' END;

-- A recorded list of shapes and of other texts. A list of tensors has NULL dimensions.
CREATE OR REPLACE MACRO shapes_of(dims) AS from_json(dims, '[["BIGINT"]]');
CREATE OR REPLACE MACRO texts_of(texts) AS from_json(texts, '["VARCHAR"]');
-- '[2, 2]' -> [2, 2]
CREATE OR REPLACE MACRO integers_of(text) AS TRY_CAST(text AS BIGINT[]);
CREATE OR REPLACE MACRO elements(shape) AS CASE WHEN shape IS NULL THEN NULL
    ELSE coalesce(list_product(shape), 1) END;

-- The sum of the numbers that a pattern finds in a text; NULL: none.
CREATE OR REPLACE MACRO sum_in(text, pattern) AS list_sum(list_transform(
    regexp_extract_all(text, pattern, 1), lambda each: TRY_CAST(each AS BIGINT)));

-- The place of an input that a row of queries/names tells: 'kernel=2'.
CREATE OR REPLACE MACRO place_of(told, name) AS
    TRY_CAST(regexp_extract(told, '\b' || name || '=(\d+)', 1) AS INTEGER);

-- Inputs that an operator moves whole, as such a row lists them, 'reads=2,3 writes=1': '2' is the second
-- input, '2/2' half of it, '2:3' as many elements in the type of the third, '2@1' as many elements of 1 byte.
CREATE OR REPLACE MACRO places_of(told, name) AS list_transform(
    regexp_extract_all(regexp_extract(told, name || '=(\S*)', 1), '[^,]+'), lambda each: {
        'place': regexp_extract(each, '^(\d+)', 1)::INTEGER,
        'parts': coalesce(TRY_CAST(regexp_extract(each, '/(\d+)', 1) AS INTEGER), 1),
        'typed': coalesce(TRY_CAST(regexp_extract(each, ':(\d+)', 1) AS INTEGER),
            regexp_extract(each, '^(\d+)', 1)::INTEGER),
        'size': TRY_CAST(regexp_extract(each, '@(.+)', 1) AS DOUBLE)});
-- The bytes of such inputs with these shapes and types; those that were not given do not count.
CREATE OR REPLACE MACRO moved_bytes(places, shapes, types) AS CASE WHEN len(places) = 0 THEN 0
    ELSE list_sum(list_transform(places, lambda each: elements(shapes[each.place]) / each.parts
        * coalesce(each.size, element_bytes(types[each.typed])))) END;
-- Bytes of the float64 tensors among recorded inputs; NULL: none. A number is recorded as one without
-- dimensions, which does not widen the others.
CREATE OR REPLACE MACRO float64_bytes(dims, types) AS 8 * list_sum(list_transform(list_filter(
    list_zip(shapes_of(dims), texts_of(types)), lambda x: x[2] = 'double' AND len(x[1]) > 0),
    lambda x: elements(x[1])));

-- The GPU ops of operators that could be fused, once for each intermediate: the operator's name and that of
-- the other one, the intermediate's bytes, and all bytes that the operator moves.
CREATE OR REPLACE VIEW fusable_ops AS
SELECT trace_id, first_op_id AS event_id, first AS name, name AS other, intermediate, first_bytes AS moved,
       TRUE AS is_first
FROM fusable_pair
UNION ALL
SELECT trace_id, second_op_id, name, first, intermediate, second_bytes, FALSE FROM fusable_pair;

-- The work of devices: of operators that the host called, and of those that replays of graphs ran.
-- `known_from` says how the operator is known: by its call, or by the graph's capture. `start_ns` is where
-- the host begins the operator or the replay, `event_id` what tells its place in the program: the operator,
-- that of the capture if it is in the same trace, or the launch of the replay.
CREATE OR REPLACE VIEW all_work AS
SELECT *, 'call' AS known_from FROM operator_time
UNION ALL BY NAME
SELECT * EXCLUDE launch_id, TRUE AS is_kernels FROM replayed_work;

-- Matrix products of known sizes: `batch` times a (m by k) times b (k by n). Tensor cores want multiples of
-- `unit`, which fill 16 bytes: 8 elements of 16 bits, 4 of TF32.
CREATE OR REPLACE VIEW products AS
SELECT *, CASE WHEN is_batched THEN a[1] ELSE 1 END AS batch, a[-2] AS m, a[-1] AS k, b[-1] AS n
FROM (
    SELECT *, CASE WHEN kind IN ('mm', 'bmm') THEN d[1] ELSE d[2] END AS a,
           CASE WHEN kind IN ('mm', 'bmm') THEN d[2] ELSE d[3] END AS b,
           kind IN ('bmm', 'baddbmm') AS is_batched
    FROM (SELECT *, CASE peak WHEN 'tf32' THEN 4 ELSE 8 END AS unit, shapes_of(dims) AS d
        FROM all_work WHERE is_asked(trace_id) AND kind IN ('mm', 'addmm', 'bmm', 'baddbmm')));

-- The share of the memory's bandwidth that a device's work reaches, by its bytes: where memory limits it
-- rather than math or latency. What caches answer counts as 1.
CREATE OR REPLACE VIEW memory_rates AS
SELECT w.trace_id, w.device_id, read_bytes + written_bytes AS bytes,
       least(1, sum(memory_ns) / sum(busy_ns)) AS reached
FROM (
    SELECT w.*, flops * 1e9 / peak_of(flop_per_s, peak, is_matrix) AS math_ns,
           (read_bytes + written_bytes) * 1e9 / memory_bytes_per_s AS memory_ns
    FROM all_work AS w JOIN device_peaks AS p ON w.trace_id = p.trace_id AND w.device_id = p.device_id
    WHERE is_kernels AND is_asked(w.trace_id)) AS w
WHERE memory_ns > 0 AND math_ns <= memory_ns
GROUP BY w.trace_id, w.device_id, name, bytes;

-- The traces in which a net learns: they record a backward pass, its kernels or an optimizer's step.
CREATE OR REPLACE VIEW learning_traces AS
SELECT trace_id FROM setting WHERE name = 'mode' AND value = 'training';
