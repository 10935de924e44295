"""What is shown and how: one module per output. Reporters print what the library found."""

# What rows can be printed as.
FORMATS = ("table", "csv", "json", "parquet")
