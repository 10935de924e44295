-- question: What is HTA's kernel breakdown: how long did each kernel type run, alone and with other types?
-- since: 0.1
-- column kernel_type (text): COMPUTATION, COMMUNICATION and MEMORY, joined by ' overlapping ' if concurrent
-- column total_ns (ns): time during which exactly these ran; all devices and streams are merged
-- HTA calls this get_gpu_kernel_breakdown. It truncates to whole microseconds, and may omit types of 0 ns.
SELECT
    trace_id,
    concat_ws(' overlapping ', if(types & 1 <> 0, 'COMPUTATION', NULL),
        if(types & 2 <> 0, 'COMMUNICATION', NULL), if(types & 4 <> 0, 'MEMORY', NULL)) AS kernel_type,
    sum((end_ns - start_ns) // 1000 * 1000)::BIGINT AS total_ns
FROM hta_running
GROUP BY trace_id, kernel_type
ORDER BY trace_id, total_ns DESC, kernel_type
