-- fact: The least work of a product of unknown shape, by the tiles that its kernel's name and grid tell.
-- into: kernel_bound
-- needs: thread_slice
-- of: unworked_kernel
-- when: class = 'gemm' AND regexp_matches(name, '^(maxwell|volta|turing|ampere)_\w*gemm')
-- scope: all
-- cuBLAS is column-major: along x, the grid counts tiles of the first size over the result's columns; along
-- y, of the second size over its rows; along z, batches or parts of the sums. So it is in 182 of 188 products
-- of known shapes on V100 and A100 (shared traces); the others are cut into several kernels. The last tile of
-- a side may hold a single element.
-- outputs: a product reads and writes something for each row, column and element of its result.
-- layer: with the products of its backward pass, joined by the sequence number: the result is M by N; their
-- results are M by K and K by N, each in one of two orders. Each of the sides is known from two grids, which
-- must agree; of several ways to read them, the one of least work counts.
WITH name AS (
    SELECT label_id, format, TRY_CAST(tile[1] AS DOUBLE) AS x, TRY_CAST(tile[2] AS DOUBLE) AS y,
           CASE WHEN format IN ('bf16', 'fp16') THEN 2 WHEN format IN ('tf32', 'fp32') THEN 4 END AS each
    FROM (SELECT label_id, format, regexp_extract_all(regexp_extract(name, '_\d+x\d+(_|$)'), '\d+') AS tile
        FROM slice_label WHERE class = 'gemm'
            AND regexp_matches(name, '^(maxwell|volta|turing|ampere)_\w*gemm'))
    WHERE x > 0 AND y > 0
),
kernel AS MATERIALIZED (
    SELECT *, x * blocks[1] AS columns, y * blocks[2] AS rows, x * (blocks[1] - 1) + 1 AS least_columns,
           y * (blocks[2] - 1) + 1 AS least_rows, if(work IN ('bmm', 'baddbmm'), blocks[3], 1) AS batch
    FROM (
        SELECT g.trace_id, g.event_id, g.dur_ns, g.start_ns, cpu_op_id, outer_op_id, o.name AS operator,
               o.work, n.*, TRY_CAST(grid AS DOUBLE[]) AS blocks
        FROM gpu_ops AS g SEMI JOIN unworked_kernel USING (trace_id, event_id)
        LEFT JOIN thread_slice AS h
          ON g.trace_id = h.trace_id AND g.launch_id = h.event_id AND NOT g.is_graph
        LEFT JOIN slice_label AS o ON h.op_label = o.label_id
        LEFT JOIN name AS n ON g.label_id = n.label_id
        WHERE (g.class = 'gemm' AND contains(o.work, 'convolution') IS NOT TRUE)
            OR o.work IN ('mm', 'addmm', 'bmm', 'baddbmm'))
),
-- An operator with the one kernel that multiplies; others add up its parts, or copy a bias.
product AS MATERIALIZED (
    SELECT trace_id, cpu_op_id, any_value(outer_op_id) AS outer_op_id, any_value(operator) AS operator,
           min(start_ns) AS start_ns, sum(dur_ns) AS ns, any_value(format) AS format, any_value(each) AS each,
           any_value(batch) FILTER (columns > 0) AS batch,
           any_value({'least': least_rows, 'most': rows}) FILTER (columns > 0) AS rows,
           any_value({'least': least_columns, 'most': columns}) FILTER (columns > 0) AS columns
    FROM kernel WHERE work IN ('mm', 'addmm', 'bmm', 'baddbmm')
    GROUP BY trace_id, cpu_op_id HAVING count(columns) = 1
),
placed AS MATERIALIZED (
    SELECT p.*, e.args->>'Sequence number' AS sequence, e.pid,
           nullif(lower(regexp_extract(o.name, ': (\w+)Backward\d*$', 1)), '') AS node
    FROM product AS p JOIN event_row AS r ON p.trace_id = r.trace_id AND p.outer_op_id = r.event_id
    JOIN slice_label AS o ON r.label_id = o.label_id
    JOIN event_row AS e ON p.trace_id = e.trace_id
        AND e.event_id = if(has(o.traits, 'autograd_node'), outer_op_id, cpu_op_id)
    WHERE sequence IS NOT NULL
),
-- Of the operators with a number, the last one has the node: those before it need no gradient.
layer AS MATERIALIZED (
    SELECT f.trace_id, f.cpu_op_id, f.batch, f.each, f.rows, f.columns, list(b.cpu_op_id) AS back_ids,
           list({'a': b.rows, 'b': b.columns} ORDER BY b.start_ns) AS back
    FROM (FROM placed WHERE node IS NULL
        QUALIFY row_number() OVER (PARTITION BY trace_id, pid, operator, sequence
            ORDER BY start_ns DESC) = 1) AS f
    JOIN placed AS b ON f.trace_id = b.trace_id AND f.pid = b.pid AND f.sequence = b.sequence
        AND f.operator = 'aten::' || b.node
    GROUP BY ALL HAVING count(*) <= 2 AND bool_and(b.batch = f.batch)
),
-- Which of the two is M by K, and the order of each one's sides. NULLs of a product that is not there are
-- ignored.
assigned AS (
    SELECT *, if(is_swapped, back[2], back[1]) AS mk, if(is_swapped, back[1], back[2]) AS kn
    FROM layer, (VALUES (FALSE), (TRUE)) AS s(is_swapped), (VALUES (FALSE), (TRUE)) AS t(mk_turned),
        (VALUES (FALSE), (TRUE)) AS u(kn_turned)
),
sided AS (
    SELECT *, if(mk_turned, mk['b'], mk['a']) AS mk_m, if(mk_turned, mk['a'], mk['b']) AS mk_k,
           if(kn_turned, kn['a'], kn['b']) AS kn_n, if(kn_turned, kn['b'], kn['a']) AS kn_k
    FROM assigned
),
way AS (
    FROM (
        SELECT trace_id, cpu_op_id, back_ids, batch, each, greatest(rows.least, mk_m['least']) AS m,
               greatest(columns.least, kn_n['least']) AS n, greatest(mk_k['least'], kn_k['least']) AS k,
               least(rows.most, mk_m['most']) AS most_m, least(columns.most, kn_n['most']) AS most_n,
               least(mk_k['most'], kn_k['most']) AS most_k
        FROM sided)
    WHERE m <= most_m AND n <= most_n AND k <= most_k
),
told AS (
    SELECT trace_id, unnest(list_prepend(cpu_op_id, any_value(back_ids))) AS cpu_op_id,
           min(2 * batch * m * n * k) AS flops, min(batch * (m * n + m * k + k * n) * each) AS bytes
    FROM way GROUP BY trace_id, way.cpu_op_id
)
SELECT trace_id, event_id, 'layer', TRUE, p.format, flops * dur_ns / ns, bytes * dur_ns / ns AS moved, 0
FROM kernel JOIN product AS p USING (trace_id, cpu_op_id) JOIN told USING (trace_id, cpu_op_id)
WHERE isfinite(moved)
UNION ALL
SELECT trace_id, event_id, 'outputs', TRUE, k.format, part * 2 * k.batch * least_rows * least_columns,
       part * k.batch * (least_rows * least_columns + least_rows + least_columns) * k.each AS moved, 0
FROM (SELECT k.*, coalesce(dur_ns / ns, 1) AS part FROM kernel AS k
    LEFT JOIN product AS p ON k.trace_id = p.trace_id AND k.cpu_op_id = p.cpu_op_id) AS k
WHERE moved > 0 AND isfinite(moved)
