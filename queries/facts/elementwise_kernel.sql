-- fact: The least bytes of PyTorch's elementwise kernels.
-- into: kernel_bound
-- of: elementwise_grid
-- scope: all
SELECT trace_id, event_id, 'grid', FALSE, NULL, 0, bytes, 0 FROM elementwise_grid
