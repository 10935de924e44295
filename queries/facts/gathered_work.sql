-- fact: The work of a call of index or index_put whose indices are not recorded: its kernel's grid tells it.
-- into: call_work
-- of: call_kernel
-- when: kind = 'cpu_op' AND work IN ('index', 'put')
-- What an index names may repeat, and is then read from a cache: only the output is moved for certain; of
-- index_put, as many values. A kernel for whole rows has a column of blocks for each row, of at most 4 kB
-- each; one for elements has a block for each 512, and its last one may be nearly empty. A large output takes
-- several kernels.
-- https://github.com/pytorch/pytorch/tree/main/aten/src/ATen/native/cuda (IndexKernelUtils.cu)
WITH moved AS (
    SELECT trace_id, event_id, any_value(type) AS type, any_value(kind) AS kind, any_value(size) AS size,
           any_value(elements(d[3]) * element_bytes(t[3])) AS values_bytes,
           sum(CASE WHEN contains(kernel, 'vectorized_gather_kernel')
                   AND grid[2] = ceil(elements(d[1][2:]) * size / 4096) THEN grid[1] * elements(d[1][2:])
               WHEN contains(kernel, 'index_elementwise_kernel<128, 4') THEN (grid[1] - 1) * 512 + 1
               END) AS elements
    FROM _scratch.call_kernel WHERE kind = 'index' OR kind = 'put' AND len(d[3]) <> len(d[1])
    GROUP BY trace_id, event_id
)
SELECT trace_id, event_id, type, FALSE AS is_matrix, 0 AS flops,
       CASE kind WHEN 'put' THEN least(values_bytes, elements * size) ELSE 0 END AS read,
       CASE kind WHEN 'put' THEN coalesce(elements, 0) ELSE elements END * size AS written, 0 AS weights,
       FALSE AS is_exact
FROM moved
