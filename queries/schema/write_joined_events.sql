-- The events of the trace in the variable `trace` as JSON text, for one file with those of other traces:
-- processes and flows get their own numbers, names of processes begin with `label`, and instants move by
-- `ahead_ns`. `number` is the trace's among `traces`. Keys that no column holds are left out.
WITH process AS ($processes)
SELECT concat(
    '{', concat_ws(',',
        '"ph":' || to_json(phase), '"cat":' || to_json(category), '"name":' || to_json(name),
        '"pid":' || new_pid, '"tid":' || tid,
        '"ts":' || microseconds((ts_ns + getvariable('ahead_ns'))::BIGINT), '"dur":' || microseconds(dur_ns),
        '"id":' || (flow_id::HUGEINT * getvariable('traces') + getvariable('number')),
        '"bp":' || to_json(flow_bind), '"s":' || to_json(scope),
        '"args":' || CASE
            WHEN phase = 'M' AND name IN ('process_name', 'process_labels')
                THEN json_object(CASE name WHEN 'process_name' THEN 'name' ELSE 'labels' END,
                    concat(getvariable('label'), ': ',
                        args ->> CASE name WHEN 'process_name' THEN 'name' ELSE 'labels' END))::VARCHAR
            ELSE args::VARCHAR END),
    '}') AS text
FROM event LEFT JOIN process USING (pid)
WHERE trace_id = getvariable('trace')
ORDER BY event_id
