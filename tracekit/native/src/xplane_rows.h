/* Events of an XLA profile's lines as rows of the table `event_row`, and what Python calls to read them. */

#ifndef TRACEKIT_XPLANE_ROWS_H
#define TRACEKIT_XPLANE_ROWS_H

#include "xplane.h"

enum { PS_PER_NS = 1000 };
/* The field of a line that has an event. */
enum { EVENT_TAG = TAG(4, SIZED) };

struct xevent {
    uint64_t kind, occurrences;
    int64_t offset_ps, duration_ps;
};

static bool read_xevent(struct text message, struct xevent *event) {
    struct cursor cursor = cursor_of(message);
    struct field field = {0};
    *event = (struct xevent){0};
    while (next_field(&cursor, &field)) {
        switch (field.tag) {
        case TAG(1, VARINT): event->kind = field.number; break;
        case TAG(2, VARINT): event->offset_ps = (int64_t)field.number; break;
        case TAG(3, VARINT): event->duration_ps = (int64_t)field.number; break;
        case TAG(5, VARINT): event->occurrences = field.number; break;
        }
    }
    return !cursor.is_damaged;
}

typedef __int128 wide;

/* The nanosecond in which a time lies. */
static wide floor_ns(wide ps) { return ps / PS_PER_NS - (ps % PS_PER_NS < 0); }

static void times(const struct line *line, const struct xevent *event, wide *begin, wide *end, bool *is_rounded) {
    wide begin_ps = (wide)line->begin_ns * PS_PER_NS + event->offset_ps, end_ps = begin_ps + event->duration_ps;
    *begin = floor_ns(begin_ps);
    *end = floor_ns(end_ps);
    *is_rounded = begin_ps % PS_PER_NS != 0 || end_ps % PS_PER_NS != 0;
}

static bool fits(wide value) { return value >= INT64_MIN && value <= INT64_MAX; }

/* The arguments of an event: those of its kind, its own, and what links it. */
static bool read_xevent_args(
    struct plane *plane, const struct line *line, const struct event_kind *kind, const struct xevent *event,
    struct text message
) {
    struct args *args = &plane->args;
    struct kept *kept = &plane->kept;
    args_clear(args);
    if (!add_stats(plane, kind->message, TAG(5, SIZED)) || !add_stats(plane, message, TAG(4, SIZED))) return false;
    if (kind->name.size != kind->shown.size || memcmp(kind->name.at, kind->shown.at, kind->name.size) != 0) {
        if (!args_begin(args, kept, text_of("full name"))) return false;
        if (!put_text(args->json, &args->heap, kind->name.at, kind->name.size, true)) return fails(kept, NO_MEMORY);
        args_end(args);
    }
    if (event->occurrences && !args_integer(args, kept, "occurrences", (int64_t)event->occurrences)) return false;
    if (line->kind != ON_STREAM) return true;
    return args_integer(args, kept, "device", line->pid) && args_integer(args, kept, "stream", line->tid);
}

/* The label of an event: its kind's, or a step's. */
static bool xevent_label(
    struct plane *plane, struct labels *labels, const struct line_words *words, struct label *label
) {
    static const char step[] = "ProfilerStep#";
    const struct member *number = words->may_be_step ? args_find(&plane->args, "step_num") : NULL;
    struct heap *unescaped = &labels->unescaped;
    struct text name = {plane->words.bytes + words->name, words->name_size};
    if (number != NULL && is_plain(args_value(&plane->args, number))) {
        struct span value = args_value(&plane->args, number);
        unescaped->size = 0;
        if (!put(unescaped, step) || !heap_add(unescaped, value.begin, number->value_size))
            return fails(&plane->kept, NO_MEMORY);
        if (!args_begin(&plane->args, &plane->kept, text_of("range"))) return false;
        if (!put_text(plane->args.json, &plane->args.heap, name.at, name.size, true))
            return fails(&plane->kept, NO_MEMORY);
        args_end(&plane->args);
        name = (struct text){unescaped->bytes, unescaped->size};
    }
    label->words[PHASE].text = (const uint8_t *)"X";
    label->words[PHASE].size = 1;
    label->words[CATEGORY].text = plane->words.bytes + words->category;
    label->words[CATEGORY].size = words->category_size;
    label->words[NAME].text = name.at;
    label->words[NAME].size = name.size;
    return true;
}

/* One event as a row. */
static bool write_xevent(
    struct plane *plane, const struct line *line, struct text message, struct batch *batch, struct labels *labels
) {
    struct xevent event;
    struct label label = {0};
    struct record links = {0};
    wide begin, end;
    bool is_rounded;
    int64_t label_id;
    if (!read_xevent(message, &event)) return fails(&plane->kept, DAMAGED);
    uint64_t place = map_get(&plane->kind_places, &plane->kept, event.kind);
    const struct event_kind *kind = &plane->kinds[place > 0 ? place - 1 : 0];
    if (!read_xevent_args(plane, line, kind, &event, message)) return false;
    if (!xevent_label(plane, labels, &kind->words[line->kind], &label)) return false;
    times(line, &event, &begin, &end, &is_rounded);
    size_t text = batch->heap.size;
    if (!args_write(&plane->args, &batch->heap, NULL)) return fails(&plane->kept, NO_MEMORY);
    if (batch->heap.size > INT32_MAX || labels->fresh->heap.size > INT32_MAX - MOST_EVENT_BYTES)
        return fails(&plane->kept, TOO_LARGE);
    if (!label_number(labels, &label, &label_id)) return fails(&plane->kept, NO_MEMORY);
    set_text(batch, ARGS, text);
    record_links(&links, &plane->args);
    for (int link = 0; link < LINKS; link++)
        if (links.has & FIRST_LINK << link) set_integer(batch, CORRELATION + link, links.links[link]);
    set_integer(batch, LABEL, label_id);
    set_integer(batch, PID, line->pid);
    set_integer(batch, TID, line->tid);
    if (fits(begin)) set_integer(batch, TS, (int64_t)begin);
    if (fits(end - begin)) set_integer(batch, DUR, (int64_t)(end - begin));
    return batch_close_row(batch) || fails(&plane->kept, NO_MEMORY);
}

/* -- what Python calls ------------------------------------------------------------------------------ */

TRACEKIT_EXPORT void tracekit_plane_close(struct plane *plane) {
    if (plane == NULL) return;
    clear_plane(plane);
    args_free(&plane->args);
    free(plane->kinds);
    free(plane->lines);
    free(plane->words.bytes);
    free(plane->about.bytes);
    free(plane);
}

/* A reader of planes, one after the other; NULL when there is no memory. */
TRACEKIT_EXPORT struct plane *tracekit_plane_open(uint64_t seed) {
    struct plane *plane = calloc(1, sizeof *plane);
    if (plane == NULL) return NULL;
    plane->kept.seed = seed;
    plane->args.json = calloc(1, sizeof *plane->args.json);
    /* Texts that are empty have addresses, too. */
    if (plane->args.json != NULL && heap_reserve(&plane->words, 1)) return plane;
    tracekit_plane_close(plane);
    return NULL;
}

/* What a plane is; the same layout as in tracekit/trace/other/xplane_events.py. */
struct plane_head {
    int64_t number, n_kinds, n_lines, held;
    struct text name, about;
    const struct event_kind *kinds;
    const struct line *lines;
    int32_t failure, is_cut;
};

/* Reads a plane, whose text must stay until the next. What is kept may grow to `most` bytes. */
TRACEKIT_EXPORT void tracekit_plane_read(
    struct plane *plane, const uint8_t *text, int64_t size, int64_t most, struct plane_head *out
) {
    plane->kept.most = most;
    plane->kept.failure = NO_FAILURE;
    bool done = read_plane(plane, (struct text){text, (size_t)size});
    *out = (struct plane_head){
        .number = plane->number, .n_kinds = plane->n_kinds, .n_lines = plane->n_lines, .held = plane->kept.held,
        .name = plane->name, .about = {plane->about.bytes, plane->about.size}, .kinds = plane->kinds,
        .lines = plane->lines, .failure = (int32_t)(done ? NO_FAILURE : plane->kept.failure), .is_cut = plane->is_cut,
    };
}

/* Gives a kind of event its label on a kind of line. */
TRACEKIT_EXPORT int32_t tracekit_plane_words(
    struct plane *plane, int64_t kind, int32_t line_kind, const char *category, int64_t category_size,
    const char *name, int64_t name_size, int32_t may_be_step
) {
    struct line_words *words = &plane->kinds[kind].words[line_kind];
    size_t begin = plane->words.size, capacity = plane->words.capacity;
    *words = (struct line_words){
        begin, (size_t)category_size, begin + (size_t)category_size, (size_t)name_size, may_be_step,
    };
    plane->kept.failure = NO_FAILURE;
    if (!heap_add(&plane->words, category, words->category_size) || !heap_add(&plane->words, name, words->name_size))
        return NO_MEMORY;
    keep(&plane->kept, (int64_t)(plane->words.capacity - capacity));
    return (int32_t)plane->kept.failure;
}

/* Gives a line its place and kind. */
TRACEKIT_EXPORT void tracekit_plane_line(struct plane *plane, int64_t line, int64_t pid, int64_t tid, int32_t kind) {
    struct line *placed = &plane->lines[line];
    placed->pid = pid;
    placed->tid = tid;
    placed->kind = kind;
}

/* Counts a plane's events, and those whose times are no whole nanoseconds; returns why it stopped. */
TRACEKIT_EXPORT int32_t tracekit_plane_count(struct plane *plane, int64_t *events, int64_t *rounded) {
    *events = *rounded = 0;
    for (const struct line *line = plane->lines; line < plane->lines + plane->n_lines; line++) {
        struct cursor cursor = cursor_of(line->message);
        struct field field = {0};
        struct xevent event;
        wide begin, end;
        bool is_rounded;
        while (next_field(&cursor, &field)) {
            if (field.tag != EVENT_TAG) continue;
            if (!read_xevent(field.text, &event)) return DAMAGED;
            times(line, &event, &begin, &end, &is_rounded);
            ++*events;
            *rounded += is_rounded;
        }
    }
    return NO_FAILURE;
}

/* The next of a plane's events as rows, numbered from `first_id`; no row when there are none left, or the next is
 * damaged. */
TRACEKIT_EXPORT void tracekit_plane_rows(
    struct plane *plane, int64_t most, int64_t first_id, struct labels *labels, struct ArrowArray *out,
    struct rows_end *end
) {
    struct batch *batch = batch_new(columns, COLUMNS);
    struct field field = {0};
    *out = (struct ArrowArray){0};
    *end = (struct rows_end){0};
    plane->kept.most = most;
    plane->kept.failure = batch != NULL && heap_reserve(&batch->heap, MANY_BYTES) ? NO_FAILURE : NO_MEMORY;
    while (plane->kept.failure == NO_FAILURE && plane->line < plane->n_lines && batch->rows < MOST_ROWS &&
           batch->heap.size < MANY_BYTES && !labels_are_many(labels)) {
        const struct line *line = &plane->lines[plane->line];
        struct cursor cursor = cursor_of(line->message);
        cursor.at += plane->at;
        bool goes_on = next_field(&cursor, &field);
        plane->at = cursor.at - line->message.at;
        if (!goes_on) plane->at = 0, plane->line++;
        if (!goes_on || field.tag != EVENT_TAG) continue;
        set_integer(batch, EVENT_ID, first_id + batch->rows);
        if (write_xevent(plane, line, field.text, batch, labels)) continue;
        if (plane->kept.failure == DAMAGED) plane->line = plane->n_lines;
    }
    bool is_sound = plane->kept.failure == NO_FAILURE || plane->kept.failure == DAMAGED;
    end->failure = is_sound ? NO_FAILURE : (int32_t)plane->kept.failure;
    end->held = plane->kept.held;
    end->many_labels = labels_are_many(labels);
    if (!is_sound) {
        batch_free(batch);
        return;
    }
    end->text_bytes = (int64_t)batch->heap.size;
    batch_clear_row(batch);
    batch_export(batch, out);
}

#endif
