#!/bin/sh
# Shows the verdict on the trace that comes with tracekit. Then captures the eager, compiled and
# Triton MLP on the available device, and compares them.
set -eu
folder=${1:-build/demo}
tracekit="${BIN:+$BIN/}tracekit"
mkdir -p "$folder"

"$tracekit" demo --no-open -o "$folder/h100.html"
echo

for name in mlp-eager mlp-compiled mlp-triton; do
    "$tracekit" capture "$name" -o "$folder/$name.json.gz"
done
"$tracekit" load "$folder"/mlp-eager.json.gz "$folder"/mlp-compiled.json.gz \
    "$folder"/mlp-triton.json.gz -o "$folder/demo.duckdb"

echo
"$tracekit" analyze "$folder/demo.duckdb"

query="SELECT metadata->'tracekit'->>'workload' AS workload, name AS operator, count(*) AS calls,
       sum(self_ns) // 1000 AS self_us
FROM trace JOIN cpu_ops USING (trace_id) JOIN host_slice USING (trace_id, event_id)
GROUP BY ALL HAVING self_us > 100 ORDER BY workload, self_us DESC"
echo
echo "The operators with the most host time, by tracekit sql $folder/demo.duckdb \"$query\""
echo
"$tracekit" sql "$folder/demo.duckdb" "$query"
