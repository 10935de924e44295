"""The figures of a trace's page, by subject."""
