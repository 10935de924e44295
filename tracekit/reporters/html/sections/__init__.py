"""The figures of a trace's page, by what they are about."""
