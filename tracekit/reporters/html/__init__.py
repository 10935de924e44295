"""Pages of charts and tables: one HTML file that needs nothing but itself."""
