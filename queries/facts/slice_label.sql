-- fact: A label of a slice and what its name means.
-- Each distinct name is looked up once. Without a category, an event with a device, a stream and a
-- correlation is a kernel, unless its name says otherwise. Without a name, its name is empty.
CREATE TABLE slice_label (
    label_id BIGINT,
    kind     VARCHAR,       -- kernel, memcpy, memset, cpu_op, runtime, driver, python, annotation ...
    name VARCHAR,
    activity host_activity, -- the activity of the host thread; NULL: not a slice of the host
    call     VARCHAR,       -- the activity of a runtime or driver call
    class    VARCHAR,       -- a kernel's class
    expert   VARCHAR,       -- a kernel's part in a mixture of experts
    format   VARCHAR,       -- the number format in a kernel's name, the narrowest one
    backend  VARCHAR,       -- the library or algorithm of a kernel of attention
    work     VARCHAR,       -- an operator's kind of work
    compiled VARCHAR,       -- the part of torch.compile that it is
    traits   VARCHAR[],     -- checked by has(traits, NAME)
    event_count BIGINT,     -- its events
    first_id    BIGINT,     -- the first of them in the file
    longest_ns  BIGINT      -- the longest of them
);
WITH seen AS (
    SELECT label_id, count(*) AS event_count, min(event_id) AS first_id, max(dur_ns) AS longest_ns,
           bool_and(device_id IS NOT NULL AND stream IS NOT NULL AND correlation IS NOT NULL) AS on_device
    FROM event_row GROUP BY label_id
),
slice AS (
    SELECT label_id, name, event_count, first_id, longest_ns,
           CASE WHEN kind = 'other' AND on_device AND category = '' THEN 'kernel' ELSE kind END AS kind
    FROM (SELECT label_id, event_kind(category, name) AS kind, coalesce(name, '') AS name,
                 coalesce(category, '') AS category
          FROM label WHERE phase = 'X')
    JOIN seen USING (label_id)
),
-- Each step is a relation: DuckDB would repeat the expression of a column wherever the next one uses it.
known AS (
    SELECT
        kind, name,
        CASE WHEN kind IN ('runtime', 'driver') THEN call_of(name) END AS call,
        CASE WHEN kind IN ('annotation', 'python', 'cpu_op') THEN slice_activity(kind, name) END AS own,
        CASE WHEN kind = 'kernel' THEN kernel_class(name) END AS class,
        CASE WHEN kind = 'kernel' THEN expert_part(name) END AS expert,
        CASE WHEN kind = 'kernel' THEN number_format(name) END AS format,
        CASE WHEN kind = 'cpu_op' THEN work_kind(name) END AS work,
        compiled_part(kind, name) AS compiled_part, traits_of(kind, name) AS traits
    FROM (SELECT DISTINCT kind, name FROM slice)
),
meaning AS (
    SELECT *, CASE
               WHEN call IN ('wait_device', 'wait_stream', 'wait_event') THEN 'sync'
               WHEN call IN ('launch_kernel', 'launch_graph', 'copy_async', 'fill') THEN 'launch'
               WHEN call = 'copy' THEN 'copy'
               WHEN call IN ('allocate', 'free', 'free_waiting') THEN 'allocation'
               WHEN call IN ('load_code', 'instantiate_graph') THEN 'compilation'
               WHEN call IS NOT NULL THEN 'runtime' WHEN has(traits, 'preprocesses') THEN 'input'
               ELSE own END::host_activity AS activity,
           CASE WHEN class = 'attention' THEN attention_backend(name) END AS backend,
           coalesce(compiled_part, CASE WHEN own = 'compilation' THEN 'compilation' END) AS compiled
    FROM known
)
SELECT label_id, kind, name, activity, call, class, expert, format, backend, work, compiled, traits,
       event_count, first_id, longest_ns
FROM slice JOIN meaning USING (kind, name)
