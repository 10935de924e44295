/* What a Perfetto trace's packets share: the texts and defaults of each sequence of packets, tracks, and the
 * records that packets become. https://perfetto.dev/docs/reference/trace-packet-proto */

#ifndef TRACEKIT_PERFETTO_H
#define TRACEKIT_PERFETTO_H

#include "marks.h"
#include "records.h"

/* Kinds of interned texts, and their fields of InternedData. */
enum interned {
    CATEGORIES, NAMES, ARGUMENT_NAMES, STAGES, ARGUMENT_TEXTS, KERNELS, KERNEL_ARGUMENTS, INTERNED_KINDS, NOT_INTERNED,
};

static enum interned interned_kind(uint32_t tag) {
    switch (tag) {
    case TAG(1, SIZED): return CATEGORIES;
    case TAG(2, SIZED): return NAMES;
    case TAG(3, SIZED): return ARGUMENT_NAMES;
    case TAG(24, SIZED): return STAGES;
    case TAG(29, SIZED): return ARGUMENT_TEXTS;
    case TAG(1000, SIZED): return KERNELS;
    case TAG(1001, SIZED): return KERNEL_ARGUMENTS;
    default: return NOT_INTERNED;
    }
}

/* A writer's packets, which refer to earlier ones. */
struct sequence {
    struct texts texts[INTERNED_KINDS];
    struct map counters;   /* sets of a GPU's counters by number, plus one; 0: those that a sample brings */
    uint64_t track;        /* of events that name none */
    bool has_track;
};

/* The names of a GPU's counters. */
struct counter_set {
    int64_t gpu;
    struct texts names;
};

enum { IS_DESCRIBED = 1, IS_PROCESS = 2, IS_THREAD = 4 };
/* A track as described; the same layout as in tracekit/trace/other/perfetto_packets.py. */
struct track {
    uint64_t uuid, parent;
    int64_t described, process_pid, thread_pid, thread_tid;
    int64_t names[3][2];        /* its own, its process's and its thread's: place in `names`, and size */
    int64_t pid, tid;           /* its place and its name, from Python */
    int64_t shown, shown_size;
};

/* Texts in pairs: what a writer calls something, and what Kineto calls it. An empty one ends them. */
typedef const char *const *vocabulary;

struct words {
    vocabulary categories, arguments, stages, stage_arguments;
};

/* What ends of slices say: it belongs to their begins. */
struct last_words {
    int64_t mark, at;   /* where its record begins in `ends` */
};

/* An end of an arrow between slices. */
struct arrow {
    uint64_t flow;
    int64_t at;
    uint32_t track;
};

struct perfetto {
    struct kept kept;
    struct words words;
    struct args args;
    struct heap records, flows, category_text, category_numbers, ends, names;
    int64_t odd_packets, odd_events, packets;   /* left out; read */
    struct map sequence_places, track_places;   /* by number, plus one */
    struct sequence *sequences;
    struct counter_set *counter_sets;
    struct track *tracks;
    struct last_words *last_words;
    struct arrow *arrows;
    int64_t n_sequences, sequence_capacity, n_counter_sets, counter_capacity, n_tracks, track_capacity, n_last_words,
        last_capacity, n_arrows, arrow_capacity, next_arrow;
    uint32_t *arrow_order;
    struct marks marks;
};

/* System clocks count nanoseconds; a trace defines other clocks. */
enum { FIRST_OWN_CLOCK = 64 };

struct packet {
    uint64_t timestamp, clock, sequence, flags;
    bool is_cleared;
    struct text track_event, interned, compressed, counters, stage, defaults, descriptor;
    bool has_clocks;
};

static struct text renamed(vocabulary words, struct text text) {
    for (; **words; words += 2)
        if (text.size > 0 && *text.at == (uint8_t)**words && text_is(text, words[0])) return text_of(words[1]);
    return text;
}

/* The sequence's text of this number; false: it has none. */
static bool interned(const struct perfetto *reader, const struct sequence *sequence, enum interned kind,
                     uint64_t number, struct text *found) {
    return texts_get(&sequence->texts[kind], &reader->kept, number, found);
}

static bool has_text(struct text text) { return text.at != NULL; }

/* -- sequences -------------------------------------------------------------------------------------- */

static struct sequence *sequence_of(struct perfetto *reader, uint64_t number) {
    uint64_t place = map_get(&reader->sequence_places, &reader->kept, number);
    if (place > 0) return &reader->sequences[place - 1];
    if (!keep_item(&reader->kept, (void **)&reader->sequences, reader->n_sequences, &reader->sequence_capacity,
                   sizeof *reader->sequences) ||
        !map_put(&reader->sequence_places, &reader->kept, number, (uint64_t)reader->n_sequences + 1))
        return NULL;
    return &reader->sequences[reader->n_sequences++];
}

static void clear_sequence(struct perfetto *reader, struct sequence *sequence) {
    for (int kind = 0; kind < INTERNED_KINDS; kind++) texts_free(&sequence->texts[kind], &reader->kept);
    sequence->has_track = false;
}

static bool read_interned_text(struct perfetto *reader, struct texts *texts, struct text entry, uint32_t name_tag) {
    struct cursor cursor = cursor_of(entry);
    struct field field = {0};
    uint64_t number = 0;
    struct text name = {entry.at, 0};
    while (next_field(&cursor, &field)) {
        if (field.tag == TAG(1, VARINT)) number = field.number;
        else if (field.tag == name_tag) name = field.text;
    }
    if (cursor.is_damaged) return fails(&reader->kept, DAMAGED);
    return texts_put(texts, &reader->kept, reader->args.json, number, name);
}

/* Names of counters, which replace those of this number in the sequence. */
static bool read_counter_set(
    struct perfetto *reader, struct sequence *sequence, uint64_t number, int64_t gpu, struct text descriptor
) {
    struct kept *kept = &reader->kept;
    struct cursor cursor = cursor_of(descriptor);
    struct field field = {0};
    uint64_t place = map_get(&sequence->counters, kept, number);
    if (place == 0) {
        if (!keep_item(kept, (void **)&reader->counter_sets, reader->n_counter_sets, &reader->counter_capacity,
                       sizeof *reader->counter_sets))
            return false;
        place = (uint64_t)++reader->n_counter_sets;
        if (!map_put(&sequence->counters, kept, number, place)) return false;
    }
    struct counter_set *set = &reader->counter_sets[place - 1];
    texts_free(&set->names, kept);
    set->gpu = gpu;
    while (next_field(&cursor, &field))
        if (field.tag == TAG(1, SIZED) && !read_interned_text(reader, &set->names, field.text, TAG(2, SIZED)))
            return false;
    return !cursor.is_damaged || fails(kept, DAMAGED);
}

static bool read_interned_counters(struct perfetto *reader, struct sequence *sequence, struct text entry) {
    struct cursor cursor = cursor_of(entry);
    struct field field = {0};
    uint64_t number = 0;
    int64_t gpu = 0;
    struct text descriptor = {entry.at, 0};
    while (next_field(&cursor, &field)) {
        if (field.tag == TAG(1, VARINT)) number = field.number;
        else if (field.tag == TAG(2, SIZED)) descriptor = field.text;
        else if (field.tag == TAG(3, VARINT)) gpu = (int32_t)field.number;
    }
    if (cursor.is_damaged) return fails(&reader->kept, DAMAGED);
    return read_counter_set(reader, sequence, number, gpu, descriptor);
}

static bool read_interned(struct perfetto *reader, struct sequence *sequence, struct text data) {
    struct cursor cursor = cursor_of(data);
    struct field field = {0};
    while (next_field(&cursor, &field)) {
        enum interned kind = interned_kind(field.tag);
        if (field.tag == TAG(47, SIZED) && !read_interned_counters(reader, sequence, field.text)) return false;
        if (kind != NOT_INTERNED &&
            !read_interned_text(reader, &sequence->texts[kind], field.text, TAG(2, SIZED)))
            return false;
    }
    return !cursor.is_damaged || fails(&reader->kept, DAMAGED);
}

static bool read_defaults(struct perfetto *reader, struct sequence *sequence, struct text defaults) {
    struct cursor outer = cursor_of(defaults);
    struct field field = {0};
    while (next_field(&outer, &field)) {
        if (field.tag != TAG(11, SIZED)) continue;
        struct cursor inner = cursor_of(field.text);
        while (next_field(&inner, &field)) {
            if (field.tag != TAG(11, VARINT)) continue;
            sequence->track = field.number;
            sequence->has_track = true;
        }
        outer.is_damaged |= inner.is_damaged;
    }
    return !outer.is_damaged || fails(&reader->kept, DAMAGED);
}

/* -- tracks ----------------------------------------------------------------------------------------- */

/* The track's place in `tracks`; -1 when there is no memory. */
static int64_t track_of(struct perfetto *reader, uint64_t uuid) {
    uint64_t place = map_get(&reader->track_places, &reader->kept, uuid);
    if (place > 0) return (int64_t)place - 1;
    if (reader->n_tracks == INT32_MAX ||
        !keep_item(&reader->kept, (void **)&reader->tracks, reader->n_tracks, &reader->track_capacity,
                   sizeof *reader->tracks) ||
        !map_put(&reader->track_places, &reader->kept, uuid, (uint64_t)reader->n_tracks + 1))
        return -1;
    reader->tracks[reader->n_tracks].uuid = uuid;
    return reader->n_tracks++;
}

/* A process or a thread in a track's description. */
static bool read_owner(struct text text, uint32_t name_tag, int64_t *pid, int64_t *tid, struct text *name) {
    struct cursor cursor = cursor_of(text);
    struct field field = {0};
    while (next_field(&cursor, &field)) {
        if (field.tag == TAG(1, VARINT)) *pid = (int32_t)field.number;
        else if (field.tag == TAG(2, VARINT)) *tid = (int64_t)field.number;
        else if (field.tag == name_tag) *name = field.text;
    }
    return !cursor.is_damaged;
}

static bool read_track(struct perfetto *reader, struct text descriptor) {
    struct track found = {.described = IS_DESCRIBED};
    struct text names[3] = {{0}}, fixed = {0};
    struct cursor cursor = cursor_of(descriptor);
    struct field field = {0};
    int64_t ignored = 0;
    bool is_sound = true;
    while (next_field(&cursor, &field)) {
        switch (field.tag) {
        case TAG(1, VARINT): found.uuid = field.number; break;
        case TAG(2, SIZED): names[0] = field.text; break;
        case TAG(3, SIZED):
            found.described |= IS_PROCESS;
            is_sound &= read_owner(field.text, TAG(6, SIZED), &found.process_pid, &ignored, &names[1]);
            break;
        case TAG(4, SIZED):
            found.described |= IS_THREAD;
            is_sound &= read_owner(field.text, TAG(5, SIZED), &found.thread_pid, &found.thread_tid, &names[2]);
            break;
        case TAG(5, VARINT): found.parent = field.number; break;
        case TAG(10, SIZED): fixed = field.text; break;
        }
    }
    if (cursor.is_damaged || !is_sound) return fails(&reader->kept, DAMAGED);
    if (names[0].size == 0) names[0] = fixed;
    int64_t place = track_of(reader, found.uuid);
    if (place < 0) return false;
    size_t capacity = reader->names.capacity;
    for (int i = 0; i < 3; i++) {
        found.names[i][0] = (int64_t)reader->names.size;
        if (has_text(names[i]) && !put_text(reader->args.json, &reader->names, names[i].at, names[i].size, false))
            return fails(&reader->kept, NO_MEMORY);
        found.names[i][1] = (int64_t)reader->names.size - found.names[i][0];
    }
    reader->tracks[place] = found;
    return keep(&reader->kept, (int64_t)(reader->names.capacity - capacity));
}

#endif
