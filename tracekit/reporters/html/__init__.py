"""Pages of charts and tables: self-contained HTML files."""
