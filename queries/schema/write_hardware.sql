-- Inserts the peaks of devices, a JSON list of objects ($devices), into `hardware`.
INSERT INTO hardware BY NAME
SELECT unnest(from_json($devices, '[{
    "place": "INTEGER", "name": "VARCHAR", "pattern": "VARCHAR", "memory_bytes_per_s": "DOUBLE",
    "host_link_bytes_per_s": "DOUBLE", "link_bytes_per_s": "DOUBLE", "cache_bytes": "BIGINT",
    "clock_mhz": "DOUBLE",
    "flop_per_s": "MAP(VARCHAR, DOUBLE)",
    "source": "VARCHAR", "note": "VARCHAR"
}]'), recursive := true)
