/* Events between reading a file and knowing its tracks: records of a fixed part and texts, which Python keeps on
 * the disk. */

#ifndef TRACEKIT_RECORDS_H
#define TRACEKIT_RECORDS_H

#include "args.h"

enum record_kind { SLICE, INSTANT, COUNTER, STAGE, GPU_COUNTER };

/* What a record has besides its kind and time; the links follow in the order of their columns. */
enum { HAS_NAME = 1, HAS_CATEGORY = 2, HAS_DUR = 4, HAS_PID = 8, HAS_TID = 16, FIRST_LINK = 32 };
enum { LINKS = STREAM - CORRELATION + 1 };

struct record {
    uint32_t size;          /* with its texts: name, category, args, flow ids */
    uint16_t kind, has;
    uint32_t track, mark;   /* of a slice: the mark of its begin */
    uint32_t name_size, category_size, args_size, n_flows;
    int64_t at, dur, pid, tid, links[LINKS];
};

/* Begins a record in the heap; returns where it begins. */
static size_t record_begin(struct heap *heap) {
    size_t begin = heap->size;
    if (!heap_reserve(heap, sizeof(struct record))) return SIZE_MAX;
    heap->size += sizeof(struct record);
    return begin;
}

/* Notes the links among the arguments. */
static void record_links(struct record *record, const struct args *args) {
    int64_t value;
    for (const struct member *member = args->members; member < args->members + args->count; member++) {
        bool is_old = member->column == OLD_EXTERNAL_ID;
        int link = (is_old ? EXTERNAL_ID : member->column) - CORRELATION;
        if (member->column < 0 || (is_old && record->has & FIRST_LINK << link)) continue;
        if (!member_number(args, member, &value)) continue;
        record->has |= (uint16_t)(FIRST_LINK << link);
        record->links[link] = value;
    }
}

/* Completes the record that begins at `begin`, and has its texts; false when it is too large. */
static bool record_end(struct heap *heap, size_t begin, struct record *record, struct kept *kept) {
    if (heap->size - begin > MOST_EVENT_BYTES) return fails(kept, TOO_LARGE);
    record->size = (uint32_t)(heap->size - begin);
    memcpy(heap->bytes + begin, record, sizeof *record);
    return true;
}

#endif
