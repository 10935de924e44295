-- The trace as HolisticTraceAnalysis (traceinsight 0.6.1) represents it, for the queries that follow HTA's
-- rules.
-- https://github.com/facebookresearch/HolisticTraceAnalysis/blob/main/hta/common/trace_parser.py and trace.py
--     which events it keeps, how it rounds, which it links, what it leaves out of traces with steps
-- https://github.com/facebookresearch/HolisticTraceAnalysis/blob/main/hta/common/types.py
--     kernel types
-- https://github.com/facebookresearch/HolisticTraceAnalysis/blob/main/hta/utils/utils.py
--     which of the types it tries first, and how it merges intervals
-- https://github.com/facebookresearch/HolisticTraceAnalysis/tree/main/hta/analyzers
--     the analyses, which the queries name by their functions in hta/trace_analysis.py

CREATE OR REPLACE MACRO is_hta_memory(name) AS regexp_matches(name, '^((hip)?(Memcpy|Memset)|dma)');

-- HTA's type of an event that HTA treats as a kernel, by the event's name.
CREATE OR REPLACE MACRO hta_kernel_type(name) AS CASE
    WHEN regexp_matches(name, '^(nccl|hip|hccl|.*ncclKernel)') THEN 'COMMUNICATION'
    WHEN is_hta_memory(name) THEN 'MEMORY'
    WHEN regexp_matches(name, '^.*(Memcpy|Memset|dma|Sync)|^Stream Wait Event|^cuda.*LaunchKernel')
        OR regexp_matches(name, '^(runFunction|job_exe|packet|pe_exe|cpum_exe_subgraph)')
        OR starts_with(name, 'collective_subgraph_execution')
    THEN 'OTHER'
    ELSE 'COMPUTATION' END;

-- The names of launches that HTA's launch statistics count, and the names that its queue length counts.
CREATE OR REPLACE MACRO is_hta_launch(name) AS name IN (
    'cudaLaunchKernel', 'cudaLaunchKernelExC', 'cudaMemcpyAsync', 'cudaMemsetAsync',
    'runFunction - job_prep_and_submit_for_execution'
);
CREATE OR REPLACE MACRO is_hta_queue_launch(name) AS is_hta_launch(name) OR name IN (
    'cuLaunchKernel', 'cuLaunchKernelEx', 'hipLaunchKernel', 'hipExtModuleLaunchKernel', 'hipMemsetAsync',
    'hipMemcpyAsync', 'hipMemcpyWithStream'
);

-- HTA's events, of one trace or of all:
--   stream      args.stream; -1 where it is missing or not a number. HTA treats all others as GPU work
--   on_device   HTA links it with host events: it has a stream and a correlation, or is an Event or a
--               Context Sync
--   linked_id   the last event of the other side with its correlation; 0: no such event; -1: the event has
--               no correlation
--   copies      how many times HTA stores the event
-- Where any timestamp of the file has a fraction, times shrink to whole microseconds: the start is rounded
-- up and the end down, after a sum in doubles. An event within one microsecond gets a negative duration.
-- In a trace with several profiler steps and host events, HTA keeps the host's events that begin before the
-- last step, and a device's once for each such host event with its correlation. On MTIA it keeps the host's
-- operators, annotations and calls from the first step to the end of the last, kernels with the correlation
-- of one of these, and copies and fills that begin in a step, whose stream is their tid where they have none.
CREATE OR REPLACE VIEW hta_events AS
WITH form AS (
    SELECT trace_id, bool_or(ts_ns IS NULL OR ts_ns % 1000 <> 0) AS is_rounded
    FROM event WHERE is_asked(trace_id) GROUP BY trace_id
),
parsed AS (
    SELECT
        trace_id, event_id, category, name,
        CASE WHEN is_rounded THEN ceil(microseconds(ts_ns)::DOUBLE)::BIGINT * 1000 ELSE ts_ns END AS start_ns,
        CASE WHEN is_rounded THEN
                  floor(microseconds(ts_ns)::DOUBLE + microseconds(dur_ns)::DOUBLE)::BIGINT * 1000
             ELSE ts_ns + dur_ns END AS end_ns,
        coalesce(stream, -1) AS stream, coalesce(correlation, -1) AS correlation, tid,
        regexp_matches(name, '^ProfilerStep#[0-9]') AS is_step
    FROM event JOIN form USING (trace_id)
    WHERE ts_ns IS NOT NULL AND dur_ns IS NOT NULL AND category IS NOT NULL AND category <> 'Trace'
),
sided AS (
    SELECT *, (stream >= 0 AND correlation >= 0) OR name IN ('Event Sync', 'Context Sync') AS on_device
    FROM parsed
),
partner AS (
    SELECT trace_id, correlation, max(event_id) FILTER (on_device) AS device_id,
           max(event_id) FILTER (NOT on_device) AS host_id
    FROM sided WHERE correlation <> -1 GROUP BY trace_id, correlation
),
-- The traces that HTA filters by their steps.
stepped AS (
    SELECT trace_id, max(start_ns) FILTER (is_step AND NOT on_device) AS last_ns,
           coalesce(contains(any_value(metadata)->'distributedInfo'->>'backend', 'mtia:hccl'), FALSE)
               OR (bool_or(name = 'runFunction - job_prep_and_submit_for_execution')
                   AND NOT bool_or(name IN ('cudaLaunchKernel', 'hipLaunchKernel'))) AS is_mtia
    FROM sided JOIN trace USING (trace_id) GROUP BY trace_id
    HAVING count(DISTINCT name) FILTER (is_step) > 1 AND (is_mtia OR NOT bool_and(on_device))
),
host AS (
    SELECT s.trace_id, event_id, correlation FROM sided AS s JOIN stepped USING (trace_id)
    WHERE NOT is_mtia AND NOT on_device AND start_ns < last_ns
),
mtia AS (
    SELECT s.*, regexp_matches(category, '^(cpu_op|user_annotation|.+_runtime)') AS is_host,
           min(start_ns) FILTER (is_step AND is_host) OVER trace AS first_ns,
           max(end_ns) FILTER (is_step AND is_host) OVER trace AS last_ns
    FROM sided AS s SEMI JOIN (FROM stepped WHERE is_mtia) USING (trace_id)
    WINDOW trace AS (PARTITION BY trace_id)
),
mtia_copies AS (
    SELECT m.* FROM mtia AS m SEMI JOIN (FROM mtia WHERE is_step) AS s ON m.trace_id = s.trace_id
        AND m.start_ns BETWEEN s.start_ns AND s.end_ns
    WHERE is_hta_memory(m.name)
),
mtia_host AS (FROM mtia WHERE is_host AND start_ns >= first_ns AND end_ns <= last_ns),
copied AS (
    SELECT trace_id, event_id, 1 AS copies FROM sided ANTI JOIN stepped USING (trace_id)
    UNION ALL
    SELECT trace_id, event_id, 1 FROM host
    UNION ALL
    SELECT s.trace_id, s.event_id, count(*) FROM sided AS s JOIN host AS h ON s.trace_id = h.trace_id
        AND s.correlation = h.correlation
    WHERE on_device GROUP BY s.trace_id, s.event_id
    UNION ALL
    (
        SELECT trace_id, event_id, 1 FROM mtia_host
        UNION
        SELECT m.trace_id, m.event_id, 1 FROM mtia AS m SEMI JOIN mtia_host AS h ON m.trace_id = h.trace_id
            AND m.correlation = h.correlation
        WHERE m.correlation <> -1 AND regexp_matches(category, '^(kernel|gpu_mem.|mtia_ccp_events)')
        UNION
        SELECT trace_id, event_id, 1 FROM mtia_copies
    )
)
SELECT
    s.* EXCLUDE (tid, is_step) REPLACE (coalesce(mtia_stream, stream) AS stream), end_ns - start_ns AS dur_ns,
    CASE WHEN correlation = -1 THEN -1
        ELSE coalesce(CASE WHEN on_device THEN host_id ELSE device_id END, 0) END AS linked_id,
    copies
FROM sided AS s JOIN copied USING (trace_id, event_id) LEFT JOIN partner USING (trace_id, correlation)
LEFT JOIN (SELECT trace_id, event_id, tid AS mtia_stream FROM mtia_copies WHERE stream = -1)
    USING (trace_id, event_id);

-- The events that HTA treats as GPU work, of all devices and streams, merged into intervals that do not
-- overlap: for each type, and for all together (`ANY`). An interval may have a negative duration: see above.
CREATE OR REPLACE VIEW hta_intervals AS
WITH op AS (
    SELECT trace_id, unnest([hta_kernel_type(name), 'ANY']) AS kernel_type, event_id, start_ns, end_ns
    FROM hta_events WHERE stream <> -1
),
-- A new merged interval begins with an interval that starts after all earlier ones have ended.
opening AS (
    SELECT *, start_ns > max(end_ns) OVER (PARTITION BY trace_id, kernel_type ORDER BY start_ns, event_id
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS opens
    FROM op
),
merged AS (
    SELECT *, sum(if(opens, 1, 0)) OVER (PARTITION BY trace_id, kernel_type ORDER BY start_ns, event_id
        ROWS UNBOUNDED PRECEDING) AS place
    FROM opening
)
SELECT trace_id, kernel_type, min(start_ns) AS start_ns, max(end_ns) AS end_ns FROM merged
GROUP BY trace_id, kernel_type, place;

-- How long types ran at the same time: `types` is a sum of 1 (COMPUTATION), 2 (COMMUNICATION) and 4 (MEMORY).
CREATE OR REPLACE VIEW hta_running AS
WITH typed AS (
    SELECT *, CASE kernel_type WHEN 'COMPUTATION' THEN 1 WHEN 'COMMUNICATION' THEN 2
        WHEN 'MEMORY' THEN 4 END AS bit
    FROM hta_intervals WHERE bit IS NOT NULL
),
edge AS (
    SELECT trace_id, start_ns AS at_ns, bit AS step FROM typed
    UNION ALL
    SELECT trace_id, end_ns, -bit FROM typed
)
SELECT trace_id, at_ns AS start_ns, lead(at_ns) OVER later AS end_ns,
       (sum(sum(step)) OVER later)::BIGINT AS types
FROM edge GROUP BY trace_id, at_ns
WINDOW later AS (PARTITION BY trace_id ORDER BY at_ns)
QUALIFY types > 0;
