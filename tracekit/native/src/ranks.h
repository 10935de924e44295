/* Written by tracekit/native/ranks.py, which says what the numbers are. */

#ifndef TRACEKIT_RANKS_H
#define TRACEKIT_RANKS_H

/* What a row is, in the order in which rows of one begin are taken. */
enum {
    THREAD_KIND = -1,
    ANNOTATION_KIND = 0,
    PYTHON_KIND = 1,
    CPU_OP_KIND = 2,
    CALL_KIND = 3,
    COPY_KIND = 4,
    WAIT_KIND = 5,
};

/* What is known of a slice. */
enum {
    OP_FLAG = 1,
    PYTHON_FLAG = 2,
    MODULE_FLAG = 4,
    LINE_FLAG = 8,
    COVERING_FLAG = 16,
};

/* Where the parts of a row's rank begin; the flags come first. */
enum {
    ACTIVITY_SHIFT = 5,
    ID_SHIFT = 13,
    KIND_SHIFT = 60,
};

/* What a step of the walk gave. */
enum {
    SEGMENTS_WALKED = 0,
    SLICES_WALKED = 1,
    WAITS_WALKED = 2,
    IS_DONE_WALKED = 3,
    FAILED_WALKED = 4,
    OUT_OF_MEMORY_WALKED = 5,
};

#endif
