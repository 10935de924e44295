-- question: What does the run already use: which framework, compiler, graphs, formats and kernels?
-- since: 0.1
-- column name (text): framework, engine, mode, compiler, cuda graphs, products, attention, optimizer, loader,
--     allocator, parallelism or recorded
-- column value (text): what it is
-- column share (fraction of whole): how much of the run it is; NULL: no matter of degree
-- column whole (text): what the share is of: GPU ops, or the time of products or attention; NULL: no share
-- column event_id (id): an event that shows it
-- doubts: no_gpu_ops, no_operators, no_stacks
FROM setting WHERE is_asked(trace_id)
ORDER BY trace_id, array_position(['framework', 'engine', 'mode', 'compiler', 'cuda graphs', 'products',
    'attention', 'optimizer', 'loader', 'allocator', 'parallelism', 'recorded'], name), share DESC, value
