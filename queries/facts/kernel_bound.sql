-- fact: A lower bound of the work of a kernel without known shapes.
-- scope: all
-- Other files of this folder write the rows, each from its source; a kernel may have several.
CREATE TABLE kernel_bound (
    trace_id INTEGER, event_id BIGINT, -- the kernel
    source    VARCHAR, -- same kernel, same place, grid, neighbor, tiles, layer, outputs, residual or other
                       -- trace
    is_matrix BOOLEAN, peak VARCHAR, flops DOUBLE, bytes DOUBLE, weight_bytes DOUBLE -- as in operator_work
);
