-- The lake's ranks for the traces of a database.
CREATE OR REPLACE TEMP TABLE lake_rank (
    given   INTEGER,    -- the trace_id in the database
    place   INTEGER,    -- its position in the files
    run     VARCHAR,
    rank    BIGINT,
    number  INTEGER,    -- the trace_id in the lake
    labels  MAP(VARCHAR, VARCHAR)
);
