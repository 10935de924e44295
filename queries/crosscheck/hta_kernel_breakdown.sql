-- question: What is HTA's kernel breakdown: how long did each kernel type run, alone and beside others?
-- params trace
-- columns trace_id
-- column kernel_type (text): COMPUTATION, COMMUNICATION and MEMORY, joined by ' overlapping ' if at once
-- column total_ns (ns): time in which exactly these ran; all devices and streams are merged
-- HTA calls this get_gpu_kernel_breakdown. It truncates to whole microseconds, and may omit types of 0 ns.
-- https://github.com/facebookresearch/HolisticTraceAnalysis/blob/main/hta/analyzers/breakdown_analysis.py
WITH merged AS (FROM hta_intervals(['COMPUTATION', 'COMMUNICATION', 'MEMORY']))
SELECT
    trace_id,
    concat_ws(' overlapping ',
        CASE WHEN types & 1 <> 0 THEN 'COMPUTATION' END,
        CASE WHEN types & 2 <> 0 THEN 'COMMUNICATION' END,
        CASE WHEN types & 4 <> 0 THEN 'MEMORY' END) AS kernel_type,
    sum((end_ns - start_ns) // 1000 * 1000)::BIGINT AS total_ns
FROM hta_running('merged')
GROUP BY trace_id, kernel_type
ORDER BY trace_id, total_ns DESC, kernel_type
