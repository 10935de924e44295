-- Enum types: a column of such a type takes at most one byte per row and reads as text. The names are in
-- alphabetical order, so that they sort alphabetically.

CREATE TYPE gpu_op_kind AS ENUM ('host_function', 'kernel', 'memcpy', 'memset');

-- A device's activity at an instant, or the activity of a GPU op even if other work covers it.
CREATE TYPE device_activity AS ENUM ('communication', 'compute', 'copy', 'host_function', 'idle');

-- The class of a kernel; other GPU ops have their kind.
CREATE TYPE gpu_op_class AS ENUM (
    'attention', 'communication', 'convolution', 'copy', 'elementwise', 'gemm', 'host_function',
    'memcpy', 'memset', 'normalization',
    'other', 'reduction', 'triton'
);

-- A host thread's activity; untraced if no slice is open.
CREATE TYPE host_activity AS ENUM (
    'allocation', 'compilation', 'copy', 'dispatch', 'input', 'launch', 'python', 'runtime', 'sync',
    'untraced'
);
-- A host_activity by its number, the result of enum_code().
CREATE OR REPLACE MACRO host_activity_of(code) AS enum_range(NULL::host_activity)[code + 1];

-- Why a device is idle, and the host's activity meanwhile (queries/facts/gpu_timeline.sql).
CREATE TYPE idle_class AS ENUM ('after_last_op', 'device', 'host_late', 'unlinked');
CREATE TYPE idle_cause AS ENUM (
    'allocation', 'compilation', 'copy', 'dispatch', 'held', 'host_function', 'input', 'launch',
    'launch_latency', 'python', 'runtime', 'sync', 'untraced'
);
