/* A plane of an XLA profile: its names, kinds of events and lines.
 * https://github.com/openxla/xla/blob/main/xla/tsl/profiler/protobuf/xplane.proto */

#ifndef TRACEKIT_XPLANE_H
#define TRACEKIT_XPLANE_H

#include "args.h"

/* What a line shows; the same values as in tracekit/trace/other/xplane_events.py. */
enum line_kind { ON_STREAM, BESIDE_STREAM, IN_STEPS, ON_HOST, LINE_KINDS };

/* The label of a kind of event on a kind of line, in the plane's `words`. */
struct line_words {
    size_t category, category_size, name, name_size;
    bool may_be_step;   /* a step of the program, if the event has a step's number */
};

/* A kind of event. */
struct event_kind {
    int64_t key;
    struct text name, shown, message;   /* `message` has its stats */
    struct line_words words[LINE_KINDS];
};

struct line {
    int64_t number, begin_ns;
    struct text name, message;
    int64_t pid, tid;   /* from Python, like its kind */
    int32_t kind;
};

struct plane {
    struct kept kept;
    struct args args;
    struct texts stat_names;
    struct map kind_places;        /* by number, plus one */
    struct event_kind *kinds;      /* the first stands for those that the plane does not have */
    struct line *lines;
    struct text name, message;
    struct heap words, about;      /* `about`: the plane's stats as an object */
    int64_t number, n_kinds, kind_capacity, n_lines, line_capacity;
    int64_t line, at;              /* where the next row is: a line, and a byte in its message */
    bool is_cut;                   /* lines are missing at the end */
};

/* -- stats ------------------------------------------------------------------------------------------ */

struct xstat {
    uint64_t key;
    struct field value;   /* the last one in the schema that it has; tag 0: none */
};

static bool read_stat(struct text message, struct xstat *stat) {
    struct cursor cursor = cursor_of(message);
    struct field field = {0};
    *stat = (struct xstat){0};
    while (next_field(&cursor, &field)) {
        switch (field.tag) {
        case TAG(1, VARINT): stat->key = field.number; break;
        case TAG(2, FIXED64): case TAG(3, VARINT): case TAG(4, VARINT): case TAG(5, SIZED): case TAG(6, SIZED):
        case TAG(7, VARINT):
            if (field.tag >= stat->value.tag) stat->value = field;
        }
    }
    return !cursor.is_damaged;
}

static bool put_stat(struct plane *plane, const struct field *value) {
    struct args *args = &plane->args;
    struct heap *heap = &args->heap;
    struct text text = value->text;
    char size[40];
    switch (value->tag) {
    case TAG(2, FIXED64): return put_double(heap, double_of(value->number));
    case TAG(3, VARINT): return put_unsigned(heap, value->number);
    case TAG(4, VARINT):
        args->current->is_integer = true;
        args->current->integer = (int64_t)value->number;
        return put_integer(heap, (int64_t)value->number);
    case TAG(6, SIZED):
        snprintf(size, sizeof size, "\"%llu bytes\"", (unsigned long long)text.size);
        return put(heap, size);
    case TAG(7, VARINT):
        if (!texts_get(&plane->stat_names, &plane->kept, value->number, &text))
            return put_unsigned(heap, value->number);
        /* fall through */
    default: return put_text(args->json, heap, text.at, text.size, true);
    }
}

/* Adds a stat as an argument. */
static bool add_stat(struct plane *plane, struct text message) {
    struct xstat stat;
    struct text name;
    char number[24];
    if (!read_stat(message, &stat)) return fails(&plane->kept, DAMAGED);
    if (stat.value.tag == 0) return true;
    if (!texts_get(&plane->stat_names, &plane->kept, stat.key, &name)) {
        snprintf(number, sizeof number, "%lld", (long long)stat.key);
        name = text_of(number);
    }
    if (text_is(name, "correlation_id")) name = text_of("correlation");
    if (!args_begin(&plane->args, &plane->kept, name)) return false;
    return put_stat(plane, &stat.value) ? args_end(&plane->args) : fails(&plane->kept, NO_MEMORY);
}

/* Adds the stats of a message, which are its fields of this tag. */
static bool add_stats(struct plane *plane, struct text message, uint32_t tag) {
    struct cursor cursor = cursor_of(message);
    struct field field = {0};
    while (next_field(&cursor, &field))
        if (field.tag == tag && !add_stat(plane, field.text)) return false;
    return !cursor.is_damaged || fails(&plane->kept, DAMAGED);
}

/* -- the plane -------------------------------------------------------------------------------------- */

/* The key and the message of an entry of a map. */
static bool read_entry(struct text entry, uint64_t *key, struct text *message) {
    struct cursor cursor = cursor_of(entry);
    struct field field = {0};
    *key = 0;
    *message = (struct text){entry.at, 0};
    while (next_field(&cursor, &field)) {
        if (field.tag == TAG(1, VARINT)) *key = field.number;
        else if (field.tag == TAG(2, SIZED)) *message = field.text;
    }
    return !cursor.is_damaged;
}

static bool read_stat_name(struct plane *plane, struct text entry) {
    struct text message, name;
    struct field field = {0};
    uint64_t key;
    if (!read_entry(entry, &key, &message)) return fails(&plane->kept, DAMAGED);
    struct cursor cursor = cursor_of(message);
    name = (struct text){message.at, 0};
    while (next_field(&cursor, &field))
        if (field.tag == TAG(2, SIZED)) name = field.text;
    if (cursor.is_damaged) return fails(&plane->kept, DAMAGED);
    return texts_put(&plane->stat_names, &plane->kept, plane->args.json, key, name);
}

static bool read_event_kind(struct plane *plane, struct text entry) {
    struct event_kind kind = {0};
    struct field field = {0};
    uint64_t key, place;
    if (!read_entry(entry, &key, &kind.message)) return fails(&plane->kept, DAMAGED);
    struct cursor cursor = cursor_of(kind.message);
    kind.key = (int64_t)key;
    kind.name = kind.shown = (struct text){kind.message.at, 0};
    while (next_field(&cursor, &field)) {
        if (field.tag == TAG(2, SIZED)) kind.name = field.text;
        else if (field.tag == TAG(4, SIZED)) kind.shown = field.text;
    }
    if (cursor.is_damaged) return fails(&plane->kept, DAMAGED);
    if (kind.shown.size == 0) kind.shown = kind.name;
    place = map_get(&plane->kind_places, &plane->kept, key);
    if (place == 0) {
        if (!keep_item(&plane->kept, (void **)&plane->kinds, plane->n_kinds, &plane->kind_capacity, sizeof kind) ||
            !map_put(&plane->kind_places, &plane->kept, key, (uint64_t)plane->n_kinds + 1))
            return false;
        place = (uint64_t)++plane->n_kinds;
    }
    plane->kinds[place - 1] = kind;
    return true;
}

/* A line; false when it is damaged, too. */
static bool read_line(struct plane *plane, struct text message) {
    struct cursor cursor = cursor_of(message);
    struct field field = {0};
    struct text name = {message.at, 0}, shown = {message.at, 0};
    struct line line = {.message = message};
    while (next_field(&cursor, &field)) {
        switch (field.tag) {
        case TAG(1, VARINT): line.number = (int64_t)field.number; break;
        case TAG(2, SIZED): name = field.text; break;
        case TAG(3, VARINT): line.begin_ns = (int64_t)field.number; break;
        case TAG(11, SIZED): shown = field.text; break;
        }
    }
    if (cursor.is_damaged) return fails(&plane->kept, DAMAGED);
    line.name = shown.size > 0 ? shown : name;
    if (!keep_item(&plane->kept, (void **)&plane->lines, plane->n_lines, &plane->line_capacity, sizeof line))
        return false;
    plane->lines[plane->n_lines++] = line;
    return true;
}

static void clear_plane(struct plane *plane) {
    texts_free(&plane->stat_names, &plane->kept);
    map_free(&plane->kind_places, &plane->kept);
    plane->n_kinds = plane->n_lines = plane->number = plane->line = plane->at = 0;
    plane->words.size = plane->about.size = 0;
    plane->name = (struct text){(const uint8_t *)"", 0};
    plane->is_cut = false;
}

/* Reads all of a plane but its events. What comes before a damaged line is kept. */
static bool read_plane(struct plane *plane, struct text message) {
    struct cursor cursor = cursor_of(message);
    struct field field = {0};
    struct event_kind none = {.name = {message.at, 0}, .shown = {message.at, 0}, .message = {message.at, 0}};
    clear_plane(plane);
    plane->message = message;
    if (!keep_item(&plane->kept, (void **)&plane->kinds, 0, &plane->kind_capacity, sizeof none)) return false;
    plane->kinds[plane->n_kinds++] = none;
    while (next_field(&cursor, &field)) {
        bool done = true;
        switch (field.tag) {
        case TAG(1, VARINT): plane->number = (int64_t)field.number; break;
        case TAG(2, SIZED): plane->name = field.text; break;
        case TAG(3, SIZED):
            if (plane->is_cut || read_line(plane, field.text)) break;
            done = plane->is_cut = plane->kept.failure == DAMAGED;
            break;
        case TAG(4, SIZED): done = read_event_kind(plane, field.text); break;
        case TAG(5, SIZED): done = read_stat_name(plane, field.text); break;
        }
        if (!done) return false;
    }
    plane->kept.failure = NO_FAILURE;
    if (cursor.is_damaged) return fails(&plane->kept, DAMAGED);
    args_clear(&plane->args);
    if (!add_stats(plane, message, TAG(6, SIZED))) return false;
    return args_write(&plane->args, &plane->about, NULL) || fails(&plane->kept, NO_MEMORY);
}

#endif
