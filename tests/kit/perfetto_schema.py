"""The messages of Perfetto's published schema that tracekit reads, for writing them.

https://perfetto.dev/docs/reference/trace-packet-proto
"""

SCHEMA = """
message TracePacket {
  bytes clock_snapshot = 6;
  uint64 timestamp = 8;
  uint32 timestamp_clock_id = 58;
  uint32 trusted_packet_sequence_id = 10;
  TrackEvent track_event = 11;
  InternedData interned_data = 12;
  uint32 sequence_flags = 13;
  bool incremental_state_cleared = 41;
  bytes compressed_packets = 50;
  GpuCounterEvent gpu_counter_event = 52;
  GpuRenderStageEvent gpu_render_stage_event = 53;
  TracePacketDefaults trace_packet_defaults = 59;
  TrackDescriptor track_descriptor = 60;
}
message TracePacketDefaults { TrackEventDefaults track_event_defaults = 11; }
message TrackEventDefaults { uint64 track_uuid = 11; }
message TrackEvent {
  repeated uint64 category_iids = 3;
  repeated DebugAnnotation debug_annotations = 4;
  int32 type = 9;
  uint64 name_iid = 10;
  uint64 track_uuid = 11;
  repeated string categories = 22;
  string name = 23;
  int64 counter_value = 30;
  double double_counter_value = 44;
  repeated fixed64 flow_ids = 47;
  repeated fixed64 terminating_flow_ids = 48;
}
message DebugAnnotation {
  uint64 name_iid = 1;
  bool bool_value = 2;
  uint64 uint_value = 3;
  int64 int_value = 4;
  double double_value = 5;
  string string_value = 6;
  uint64 pointer_value = 7;
  string legacy_json_value = 9;
  string name = 10;
  repeated DebugAnnotation dict_entries = 11;
  repeated DebugAnnotation array_values = 12;
  uint64 string_value_iid = 17;
}
message InternedData {
  repeated Interned event_categories = 1;
  repeated Interned event_names = 2;
  repeated Interned debug_annotation_names = 3;
  repeated Interned gpu_specifications = 24;
  repeated Interned debug_annotation_string_values = 29;
  repeated InternedGpuCounterDescriptor gpu_counter_descriptors = 47;
  repeated Interned compute_kernels = 1000;
  repeated Interned compute_arg_names = 1001;
}
message Interned { uint64 iid = 1; string name = 2; }
message TrackDescriptor {
  uint64 uuid = 1;
  string name = 2;
  ProcessDescriptor process = 3;
  ThreadDescriptor thread = 4;
  uint64 parent_uuid = 5;
  string static_name = 10;
}
message ProcessDescriptor { int32 pid = 1; string process_name = 6; }
message ThreadDescriptor { int32 pid = 1; int64 tid = 2; string thread_name = 5; }
message GpuRenderStageEvent {
  uint64 event_id = 1;
  uint64 duration = 2;
  repeated ExtraData extra_data = 6;
  int32 gpu_id = 11;
  uint64 hw_queue_iid = 13;
  uint64 stage_iid = 14;
  string name = 17;
  repeated uint64 event_wait_ids = 18;
  uint64 kernel_iid = 19;
  uint64 name_iid = 20;
  ComputeKernelLaunch launch = 21;
}
message ExtraData { string name = 1; string value = 2; }
message ComputeKernelLaunch {
  Dim3 grid_size = 1;
  Dim3 workgroup_size = 2;
  repeated ExtraComputeArg args = 3;
}
message Dim3 { uint32 x = 1; uint32 y = 2; uint32 z = 3; }
message ExtraComputeArg {
  uint64 name_iid = 1;
  string name = 2;
  int64 int_value = 3;
  uint64 uint_value = 4;
  double double_value = 5;
  string string_value = 6;
}
message GpuCounterEvent {
  GpuCounterDescriptor counter_descriptor = 1;
  repeated GpuCounter counters = 2;
  int32 gpu_id = 3;
  uint64 counter_descriptor_iid = 4;
}
message InternedGpuCounterDescriptor {
  uint64 iid = 1;
  GpuCounterDescriptor counter_descriptor = 2;
  int32 gpu_id = 3;
}
message GpuCounterDescriptor { repeated GpuCounterSpec specs = 1; }
message GpuCounterSpec { uint32 counter_id = 1; string name = 2; }
message GpuCounter { uint32 counter_id = 1; int64 int_value = 2; double double_value = 3; }
"""
