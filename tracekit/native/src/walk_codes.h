/* Written by tracekit/native/walk_codes.py, which explains the numbers. */

#ifndef TRACEKIT_WALK_CODES_H
#define TRACEKIT_WALK_CODES_H

/* The kind of a row, in the order in which the walk takes rows that begin together. */
enum {
    THREAD_KIND = -1,
    ANNOTATION_KIND = 0,
    PYTHON_KIND = 1,
    CPU_OP_KIND = 2,
    CALL_KIND = 3,
    COPY_KIND = 4,
    WAIT_KIND = 5,
};

/* Properties of a slice. */
enum {
    OP_FLAG = 1,
    PYTHON_FLAG = 2,
    MODULE_FLAG = 4,
    LINE_FLAG = 8,
    COVERING_FLAG = 16,
};

/* The first bit of each part of a row's rank; the flags come first. */
enum {
    ACTIVITY_SHIFT = 5,
    ID_SHIFT = 13,
    KIND_SHIFT = 60,
};

/* The output of a step of the walk. */
enum {
    SEGMENTS_WALK_OUTPUT = 0,
    SLICES_WALK_OUTPUT = 1,
    WAITS_WALK_OUTPUT = 2,
    IS_DONE_WALK_OUTPUT = 3,
    FAILED_WALK_OUTPUT = 4,
    OUT_OF_MEMORY_WALK_OUTPUT = 5,
};

#endif
