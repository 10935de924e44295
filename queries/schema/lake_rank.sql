-- The ranks of a lake that the traces of a database are.
CREATE OR REPLACE TEMP TABLE lake_rank (
    given   INTEGER,    -- the trace_id in the database
    place   INTEGER,    -- its place in the files
    run     VARCHAR,
    rank    BIGINT,
    number  INTEGER,    -- the trace_id in the lake
    labels  MAP(VARCHAR, VARCHAR)
);
