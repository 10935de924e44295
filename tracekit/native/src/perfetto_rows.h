/* Records of a Perfetto trace, whose tracks and ends are known, as rows of the table `event_row`; and the arrows
 * between slices. */

#ifndef TRACEKIT_PERFETTO_ROWS_H
#define TRACEKIT_PERFETTO_ROWS_H

#include "perfetto_gpu.h"

/* Rows that are being written. */
struct rows_out {
    struct perfetto *reader;
    struct batch *batch;
    struct labels *labels;
    int64_t first_id;
};

static void set_word_text(struct label *label, enum word word, struct text text) {
    label->words[word].text = text.at;
    label->words[word].size = text.size;
}

static struct text record_text(const struct record *record, const uint8_t *at, uint32_t before, uint32_t size) {
    return (struct text){at + sizeof *record + before, size};
}

static bool close_row(struct rows_out *out, const struct label *label) {
    struct kept *kept = &out->reader->kept;
    int64_t label_id;
    if (out->batch->heap.size > INT32_MAX || out->labels->fresh->heap.size > INT32_MAX - 2 * MOST_EVENT_BYTES)
        return fails(kept, TOO_LARGE);
    if (!label_number(out->labels, label, &label_id)) return fails(kept, NO_MEMORY);
    set_integer(out->batch, EVENT_ID, out->first_id + out->batch->rows);
    set_integer(out->batch, LABEL, label_id);
    return batch_close_row(out->batch) || fails(kept, NO_MEMORY);
}

/* -- slices that end with arguments ----------------------------------------------------------------- */

/* The record of a slice's end, if it says something. */
static const uint8_t *find_last_words(const struct perfetto *reader, uint32_t mark) {
    int64_t low = 0, high = reader->n_last_words;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (reader->last_words[middle].mark < mark) low = middle + 1;
        else high = middle;
    }
    bool is_found = low < reader->n_last_words && reader->last_words[low].mark == mark;
    return is_found ? reader->ends.bytes + reader->last_words[low].at : NULL;
}

/* A member of a slice's arguments, written anew; its key is unescaped in a heap that is free here. */
static const uint8_t *add_member(void *context, struct json *json, const struct span *key, const uint8_t *at) {
    struct perfetto *reader = context;
    struct heap *heap = &reader->args.heap, *plain = &reader->category_text;
    const uint8_t *whole_end = json->end;
    plain->size = 0;
    if (!heap_reserve(plain, (size_t)(key->end - key->begin))) return json_wrong(json, json_no_memory);
    struct text name = {plain->bytes, json_unescape(key, plain->bytes)};
    bool begun = args_begin(&reader->args, &reader->kept, name);
    json->end = whole_end;
    const uint8_t *end = begun ? token_at(json, at).end : NULL;
    if (end == NULL || !heap_add(heap, at, (size_t)(end - at))) return json_wrong(json, json_no_memory);
    args_end(&reader->args);
    return end;
}

/* The arguments of a slice's begin, with those of its end in their place. */
static bool merge_args(struct perfetto *reader, struct heap *into, struct text begin, struct text end) {
    struct text both[] = {begin, end};
    args_clear(&reader->args);
    for (int i = 0; i < 2; i++) {
        reader->args.json->end = both[i].at + both[i].size;
        if (json_members(reader->args.json, both[i].at, add_member, reader) == NULL)
            return reader->kept.failure != NO_FAILURE ? false : fails(&reader->kept, NO_MEMORY);
    }
    return args_write(&reader->args, into, NULL) || fails(&reader->kept, NO_MEMORY);
}

/* -- rows ------------------------------------------------------------------------------------------- */

static bool add_arrows(struct perfetto *reader, const struct record *record, const uint8_t *flows, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (!keep_item(&reader->kept, (void **)&reader->arrows, reader->n_arrows, &reader->arrow_capacity,
                       sizeof *reader->arrows))
            return false;
        struct arrow *arrow = &reader->arrows[reader->n_arrows++];
        *arrow = (struct arrow){.at = record->at, .track = record->track};
        memcpy(&arrow->flow, flows + i * sizeof arrow->flow, sizeof arrow->flow);
    }
    return true;
}

/* A counter's value by its name. */
static bool put_count(struct rows_out *out, struct text name, struct text value) {
    struct heap *heap = &out->batch->heap;
    return (put(heap, "{") && put_text(out->reader->args.json, heap, name.at, name.size, true) && put(heap, ":") &&
            heap_add(heap, value.at, value.size) && put(heap, "}")) ||
           fails(&out->reader->kept, NO_MEMORY);
}

static void set_links(struct batch *batch, const struct record *record) {
    for (int link = 0; link < LINKS; link++)
        if (record->has & FIRST_LINK << link) set_integer(batch, CORRELATION + link, record->links[link]);
}

/* A slice's end: its duration, and what it says besides. */
static bool write_end(struct rows_out *out, const struct record *record, struct text args, bool *has_end) {
    struct perfetto *reader = out->reader;
    struct heap *heap = &out->batch->heap;
    uint32_t pair = record->mark < reader->marks.count ? reader->marks.at[record->mark].pair : NO_PAIR;
    const uint8_t *last = pair == NO_PAIR ? NULL : find_last_words(reader, pair);
    struct record end;
    *has_end = pair != NO_PAIR;
    if (*has_end) set_integer(out->batch, DUR, reader->marks.at[pair].at - record->at);
    if (last == NULL) {
        set_links(out->batch, record);
        return heap_add(heap, args.at, args.size) || fails(&reader->kept, NO_MEMORY);
    }
    memcpy(&end, last, sizeof end);
    size_t begin = heap->size;
    struct text more = record_text(&end, last, 0, end.args_size);
    struct links links = {.batch = out->batch};
    if (!merge_args(reader, heap, args, more)) return false;
    reader->args.json->end = heap->bytes + heap->size;
    json_members(reader->args.json, heap->bytes + begin, link_member, &links);
    return add_arrows(reader, record, more.at + more.size, end.n_flows);
}

/* One record as a row; `at` is where it begins. */
static bool write_row(struct rows_out *out, const struct record *record, const uint8_t *at) {
    static const char *const phases[] = {"X", "i", "C", "X", "C"};
    struct perfetto *reader = out->reader;
    struct batch *batch = out->batch;
    uint32_t after_name = record->name_size, after_category = after_name + record->category_size;
    struct text name = record_text(record, at, 0, record->name_size);
    struct text category = record_text(record, at, after_name, record->category_size);
    struct text args = record_text(record, at, after_category, record->args_size);
    struct label label = {0};
    size_t begin = batch->heap.size;
    bool in_track = record->kind <= COUNTER, has_end = true, has_name = record->has & HAS_NAME;
    bool is_counter = record->kind == COUNTER || record->kind == GPU_COUNTER;
    if (!add_arrows(reader, record, args.at + args.size, record->n_flows)) return false;
    if (record->kind == SLICE ? !write_end(out, record, args, &has_end)
                              : !is_counter && !heap_add(&batch->heap, args.at, args.size))
        return reader->kept.failure != NO_FAILURE ? false : fails(&reader->kept, NO_MEMORY);
    if (record->kind != SLICE) set_links(batch, record);
    if (in_track) {
        const struct track *track = &reader->tracks[record->track];
        struct text shown = {reader->names.bytes + track->shown, (size_t)track->shown_size};
        set_integer(batch, PID, track->pid);
        set_integer(batch, TID, track->tid);
        if (category.size == 0 && text_is(shown, "Overhead")) category = text_of("overhead");
        if (record->kind == COUNTER && name.size == 0) name = shown, has_name = true;
    } else {
        if (record->has & HAS_PID) set_integer(batch, PID, record->pid);
        if (record->has & HAS_TID) set_integer(batch, TID, record->tid);
    }
    if (is_counter && !put_count(out, name, args)) return false;
    set_text(batch, ARGS, begin);
    set_integer(batch, TS, record->at);
    if (record->has & HAS_DUR) set_integer(batch, DUR, record->dur);
    set_word_text(&label, PHASE, text_of(has_end ? phases[record->kind] : "B"));
    if (record->has & HAS_CATEGORY) set_word_text(&label, CATEGORY, category);
    if (has_name) set_word_text(&label, NAME, name);
    return close_row(out, &label);
}

static bool arrow_before(const void *context, uint32_t a, uint32_t b) {
    const struct arrow *left = (const struct arrow *)context + a, *right = (const struct arrow *)context + b;
    return left->flow != right->flow ? left->flow < right->flow : left->at < right->at;
}

static bool sort_arrows(struct perfetto *reader) {
    int64_t count = reader->n_arrows;
    if (count >= UINT32_MAX) return fails(&reader->kept, TOO_MUCH);
    if (!keep(&reader->kept, 2 * count * (int64_t)sizeof *reader->arrow_order)) return false;
    reader->arrow_order = malloc((size_t)(2 * count + 1) * sizeof *reader->arrow_order);
    if (reader->arrow_order == NULL) return fails(&reader->kept, NO_MEMORY);
    for (int64_t i = 0; i < count; i++) reader->arrow_order[i] = (uint32_t)i;
    sort_stable(reader->arrow_order, reader->arrow_order + count, count, arrow_before, reader->arrows);
    return true;
}

/* The next arrow's next end: a flow begins at its first slice in time. */
static bool write_arrow(struct rows_out *out) {
    struct perfetto *reader = out->reader;
    int64_t place = reader->next_arrow++;
    const struct arrow *arrow = &reader->arrows[reader->arrow_order[place]];
    bool is_first = place == 0 || reader->arrows[reader->arrow_order[place - 1]].flow != arrow->flow;
    struct label label = {0};
    set_word_text(&label, PHASE, text_of(is_first ? "s" : "f"));
    set_word_text(&label, CATEGORY, text_of("ac2g"));
    set_word_text(&label, NAME, text_of("ac2g"));
    if (!is_first) set_word_text(&label, FLOW_BIND, text_of("e"));
    set_integer(out->batch, PID, reader->tracks[arrow->track].pid);
    set_integer(out->batch, TID, reader->tracks[arrow->track].tid);
    set_integer(out->batch, TS, arrow->at);
    /* Larger numbers become negative: they still join the ends. */
    set_integer(out->batch, FLOW_ID, (int64_t)arrow->flow);
    return close_row(out, &label);
}

#endif
