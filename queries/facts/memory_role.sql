-- fact: Allocations of a memory snapshot with one site, size and role.
-- of: memory_before
-- needs: allocation, stack_frame
CREATE TABLE memory_role (
    trace_id INTEGER, device_id BIGINT, place VARCHAR, cpu_op VARCHAR,
    bytes       BIGINT,  -- size of each
    phase       VARCHAR, -- what the program did: forward, backward, optimizer ...; NULL: no frame tells
    -- parameters (with buffers), gradients, optimizer states, activations, temporaries, inputs,
    -- communication, workspace (of cuBLAS ...) or unknown
    role        VARCHAR,
    evidence    VARCHAR, -- how the role is known, or why it is not
    allocations BIGINT,
    freed       BIGINT,  -- how many of them the recording frees
    at_peak     BIGINT,  -- how many of them were live at the peak
    passes      BIGINT   -- in how many runs of forward they were made, or after how many
);
WITH made AS MATERIALIZED (
    SELECT a.trace_id, a.device_id, a.event_id, a.end_id, a.bytes, a.at_peak, a.place, a.cpu_op, a.stack_id,
           f.phase, coalesce(f.in_backward, FALSE) AS in_backward, coalesce(a.stack_id, 0) > 0 AS has_stack,
           coalesce(f.traits, []) AS traits, freed.in_backward IS TRUE AS freed_in_backward,
           coalesce(has(freed.traits, 'clears_gradients'), FALSE) AS is_cleared,
           freed.stack_id AS end_stack_id,
           freed.phase AS end_phase, coalesce(a.event_id, -1) AS at_id
    FROM allocation AS a SEMI JOIN memory_before USING (trace_id)
    LEFT JOIN stack_frame AS f ON a.trace_id = f.trace_id AND a.stack_id = f.stack_id
    LEFT JOIN memory_events AS e ON a.trace_id = e.trace_id AND a.end_id = e.event_id AND e.bytes < 0
    -- A free without a stack of its own repeats that of its allocation.
    LEFT JOIN stack_frame AS freed ON a.trace_id = freed.trace_id AND e.stack_id = freed.stack_id
        AND e.stack_id IS DISTINCT FROM a.stack_id
    WHERE a.device_type <> 0
),
-- What the program did at each record of the allocator; NULL: work that belongs to any phase, or a free
-- without a stack.
ordered AS (
    SELECT trace_id, device_id, at_id, TRUE AS is_made,
           CASE WHEN event_id IS NULL THEN NULL WHEN NOT has_stack THEN 'unrecorded'
                WHEN in_backward THEN 'backward'
                WHEN phase IN ('input', 'communication', 'workspace') THEN NULL
                WHEN phase IN ('forward', 'optimizer') THEN phase ELSE 'other' END AS part
    FROM made
    UNION ALL
    SELECT trace_id, device_id, end_id, FALSE, CASE WHEN freed_in_backward THEN 'backward'
                WHEN end_phase IN ('input', 'communication', 'workspace') THEN NULL
                WHEN end_phase IN ('forward', 'optimizer') THEN end_phase ELSE 'other' END
    FROM made WHERE end_stack_id IS NOT NULL
),
turned AS (
    SELECT *, part = 'forward' AND lag(part, 1, '' IGNORE NULLS) OVER later <> 'forward' AS is_turn,
           part <> 'unrecorded' AS is_told
    FROM ordered WINDOW later AS (PARTITION BY trace_id, device_id ORDER BY at_id, is_made)
),
-- The first later record of each kind.
timed AS MATERIALIZED (
    SELECT trace_id, device_id, at_id,
           coalesce(sum(is_turn::INTEGER) OVER (PARTITION BY trace_id, device_id ORDER BY at_id, is_made), 0)
               AS pass,
           min(at_id) FILTER (part = 'backward') OVER later AS backward_id,
           min(at_id) FILTER (is_told AND part <> 'backward') OVER later AS after_backward_id,
           min(at_id) FILTER (is_told AND part <> 'optimizer') OVER later AS after_optimizer_id,
           min(at_id) FILTER (part <> 'forward') OVER later AS after_forward_id,
           min(at_id) FILTER (NOT is_told) OVER later AS unrecorded_id,
           min(at_id) FILTER (part IN ('forward', 'backward', 'optimizer')) OVER later AS worked_id,
           min(at_id) FILTER (part = 'backward') OVER (PARTITION BY trace_id, device_id) AS first_backward_id,
           max(at_id) FILTER (part <> 'backward') OVER (PARTITION BY trace_id, device_id) AS last_other_id,
           is_made
    FROM turned
    WINDOW later AS (PARTITION BY trace_id, device_id ORDER BY at_id, is_made
                     ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING)
),
placed AS (
    SELECT m.*, t.* EXCLUDE (trace_id, device_id, at_id, is_made)
    FROM made AS m JOIN (SELECT DISTINCT ON (trace_id, device_id, at_id) * FROM timed WHERE is_made) AS t
        USING (trace_id, device_id, at_id)
),
-- Made in a backward pass that they outlive.
marked AS MATERIALIZED (
    SELECT *, phase = 'backward' AND (is_cleared OR has(traits, 'accumulates')
               OR (after_backward_id IS NOT NULL AND (end_id IS NULL OR end_id > after_backward_id)))
               IS TRUE AS outlives,
           phase = 'setup' AND (end_id IS NULL OR end_id > worked_id) IS TRUE AS is_set_up,
           has_stack AND phase IS NULL AND end_id IS NULL AND event_id < first_backward_id AS is_early,
           NOT has_stack AND event_id IS NULL AS is_older
    FROM placed
),
-- By size: the most gradients of one pass, and what may be their parameters.
per_pass AS (
    SELECT trace_id, device_id, bytes, max(n) AS gradients FROM (
        SELECT trace_id, device_id, bytes, pass, count(*) AS n FROM marked WHERE outlives GROUP BY ALL)
    GROUP BY ALL
),
sized AS (
    SELECT trace_id, device_id, bytes, bool_or(is_set_up) AS has_parameters, bool_or(is_older) AS has_older,
           count(*) FILTER (is_set_up OR is_early OR is_older) AS candidates
    FROM marked GROUP BY ALL
),
known AS (
    SELECT m.*, coalesce(gradients, 0) AS gradients, candidates, has_parameters, has_older,
           is_early AND gradients >= candidates IS TRUE AS is_matched,
           bool_or(is_early AND gradients >= candidates) OVER (PARTITION BY m.trace_id, m.device_id, bytes)
               IS TRUE AS has_matched,
           bool_or(phase = 'forward' AND (freed_in_backward OR end_id > backward_id))
               OVER (PARTITION BY m.trace_id, m.device_id, m.stack_id, bytes) IS TRUE AS is_usually_held
    FROM marked AS m LEFT JOIN per_pass USING (trace_id, device_id, bytes)
    LEFT JOIN sized USING (trace_id, device_id, bytes)
),
judged AS (
    SELECT *, CASE
        WHEN NOT has_stack THEN ['unknown', if(event_id IS NULL, 'allocated before the recording',
            'its stack was not recorded')]
        WHEN phase IN ('workspace', 'communication') THEN [phase, 'by its stack']
        WHEN phase = 'input' THEN ['inputs', 'copied by what loads the batches']
        WHEN is_set_up THEN ['parameters', 'made or moved by a module']
        WHEN is_matched THEN ['parameters', 'older than the first backward, never freed; as many gradients']
        WHEN phase = 'backward' AND outlives AND is_cleared THEN ['gradients', 'freed by zero_grad']
        WHEN phase = 'backward' AND has(traits, 'accumulates') THEN ['gradients', 'made by AccumulateGrad']
        WHEN outlives AND (has_parameters OR has_matched)
            THEN ['gradients', 'outlives its backward, as large as a parameter']
        WHEN outlives AND has_older
            THEN ['gradients', 'outlives its backward, as large as memory from before the recording']
        WHEN outlives THEN ['unknown', 'outlives its backward, but no parameter is as large']
        WHEN phase = 'optimizer' AND has(traits, 'makes_states')
            THEN ['optimizer states', 'made when the optimizer sets up its states']
        WHEN phase = 'optimizer' AND after_optimizer_id IS NOT NULL
            AND (end_id IS NULL OR end_id > after_optimizer_id)
            THEN ['optimizer states', 'made in a step of the optimizer, and kept']
        WHEN freed_in_backward AND NOT in_backward AND (phase = 'forward' OR phase IS NULL)
            THEN ['activations', 'made before a backward that frees it']
        WHEN phase = 'forward' AND in_backward AND end_id IS NOT NULL
            THEN ['activations', 'computed again in backward']
        WHEN phase = 'forward' AND end_id > backward_id
            THEN ['activations', 'made in forward, held until backward']
        WHEN phase = 'forward' AND end_id IS NULL AND is_usually_held AND pass = last_pass
            THEN ['activations', 'made in forward; earlier ones from its line are held until backward']
        WHEN phase = 'forward' AND end_id IS NULL AND backward_id > last_other_id
            THEN ['activations', 'made in forward, held in backward']
        WHEN end_id <= least(unrecorded_id, CASE phase WHEN 'forward' THEN after_forward_id
            WHEN 'backward' THEN after_backward_id WHEN 'optimizer' THEN after_optimizer_id
            WHEN 'setup' THEN worked_id END, end_id) AND phase IS NOT NULL
            THEN ['temporaries', concat('freed in the same phase: ', phase)]
        WHEN phase IS NOT NULL AND end_id IS NULL
            THEN ['unknown', concat('made in ', phase, ', not freed in the recording')]
        WHEN phase IS NOT NULL THEN ['unknown', concat('made in ', phase, ', freed after it')]
        WHEN is_early AND gradients > 0 THEN ['unknown', 'more memory of its size than gradients']
        ELSE ['unknown', 'no frame of its stack tells'] END AS judgement
    FROM (SELECT *, max(pass) OVER (PARTITION BY trace_id, device_id) AS last_pass FROM known)
)
SELECT trace_id, device_id, place, cpu_op, bytes,
       CASE WHEN in_backward AND phase = 'forward' THEN 'backward' ELSE phase END, judgement[1], judgement[2],
       count(*), count(end_id), count(*) FILTER (at_peak), count(DISTINCT pass)
FROM judged GROUP BY ALL
