"""Lakes: the traces of many ranks and runs as Parquet files, added once and queried with SQL."""
