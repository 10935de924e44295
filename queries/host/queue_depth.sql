-- question: How deep was each stream's launch queue, over time?
-- param trace (integer, default all): the trace_id to look at
-- column trace_id (id): the trace
-- column device_id (id): the device
-- column stream (id): the stream
-- column start_ns (ns): start of the interval with this depth
-- column end_ns (ns): end of the interval with this depth
-- column depth (count): launches whose work the device has not begun; a graph is one
-- doubts: no_gpu_ops, unlinked_gpu_ops, starts_before_launch
SELECT trace_id, device_id, stream, start_ns, end_ns, depth
FROM launch_queue()
ORDER BY trace_id, device_id, stream, start_ns
