/* An event as a row of the table `event_row`. */

#ifndef TRACEKIT_EVENT_H
#define TRACEKIT_EVENT_H

#include "batch.h"

/* The columns of the table `event_row` (queries/schema/tables.sql says what they mean). */
enum {
    EVENT_ID, LABEL, PID, TID, TS, DUR, CORRELATION, EXTERNAL_ID, DEVICE, STREAM, FLOW_ID, ARGS, RAW, COLUMNS,
    OLD_EXTERNAL_ID = COLUMNS,   /* as Kineto wrote it until 2022 */
};

static const struct column columns[COLUMNS] = {
    {"event_id", INTEGER}, {"label_id", INTEGER}, {"pid", INTEGER}, {"tid", INTEGER}, {"ts_ns", INTEGER},
    {"dur_ns", INTEGER}, {"correlation", INTEGER}, {"external_id", INTEGER}, {"device_id", INTEGER},
    {"stream", INTEGER}, {"flow_id", INTEGER}, {"args", JSON}, {"raw", JSON},
};

/* Batches of events that are not JSON end at these sizes; larger events are refused. */
enum { MOST_ROWS = 4096, MANY_BYTES = 1 << 20, MOST_EVENT_BYTES = 64 << 20 };

#endif
