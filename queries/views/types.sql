-- Closed sets of names: a column of such a type takes a byte a row, or less, and reads as text. They stand in
-- the order of the alphabet, in which they are sorted.

CREATE TYPE IF NOT EXISTS gpu_op_kind AS ENUM ('kernel', 'memcpy', 'memset');

-- What a device does at an instant, or would without other work that covers it.
CREATE TYPE IF NOT EXISTS device_activity AS ENUM ('communication', 'compute', 'copy', 'idle');

-- Of kernels, what kernel_class() says; others are of their kind.
CREATE TYPE IF NOT EXISTS gpu_op_class AS ENUM (
    'attention', 'communication', 'convolution', 'copy', 'elementwise', 'gemm', 'memcpy', 'memset',
    'normalization',
    'other', 'reduction', 'triton'
);

-- What a thread of the host does, as host_activity() says; elsewhere it is untraced.
CREATE TYPE IF NOT EXISTS host_activity AS ENUM (
    'allocation', 'compilation', 'copy', 'dispatch', 'input', 'launch', 'python', 'runtime', 'sync',
    'untraced'
);
-- By its number, as enum_code() says it.
CREATE OR REPLACE MACRO host_activity_of(code) AS enum_range(NULL::host_activity)[code + 1];

-- Why a device is idle, and what the host did meanwhile (queries/views/timeline.sql).
CREATE TYPE IF NOT EXISTS idle_class AS ENUM ('after_last_op', 'device', 'host_late', 'unlinked');
CREATE TYPE IF NOT EXISTS idle_cause AS ENUM (
    'allocation', 'compilation', 'copy', 'dispatch', 'input', 'launch', 'launch_latency', 'python', 'runtime',
    'sync',
    'untraced'
);
