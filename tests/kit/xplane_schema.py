"""The messages of XLA's published schema that tracekit reads, for writing them.

https://github.com/openxla/xla/blob/main/xla/tsl/profiler/protobuf/xplane.proto
"""

SCHEMA = """
message XPlane {
  int64 id = 1;
  string name = 2;
  repeated XLine lines = 3;
  repeated EventEntry event_metadata = 4;
  repeated StatEntry stat_metadata = 5;
  repeated XStat stats = 6;
}
message EventEntry { int64 key = 1; XEventMetadata value = 2; }
message StatEntry { int64 key = 1; XStatMetadata value = 2; }
message XLine {
  int64 id = 1;
  string name = 2;
  int64 timestamp_ns = 3;
  repeated XEvent events = 4;
  string display_name = 11;
}
message XEvent {
  int64 metadata_id = 1;
  int64 offset_ps = 2;
  int64 duration_ps = 3;
  repeated XStat stats = 4;
  int64 num_occurrences = 5;
}
message XStat {
  int64 metadata_id = 1;
  double double_value = 2;
  uint64 uint64_value = 3;
  int64 int64_value = 4;
  string str_value = 5;
  bytes bytes_value = 6;
  uint64 ref_value = 7;
}
message XEventMetadata {
  int64 id = 1;
  string name = 2;
  string display_name = 4;
  repeated XStat stats = 5;
}
message XStatMetadata { int64 id = 1; string name = 2; }
"""
