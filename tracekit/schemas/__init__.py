"""JSON Schemas of what commands print with --json, made from the dataclasses and questions that the
JSON is made of."""
