/* Perfetto's track events, with their debug annotations: begins and ends of slices, instants and counters. */

#ifndef TRACEKIT_PERFETTO_EVENTS_H
#define TRACEKIT_PERFETTO_EVENTS_H

#include "perfetto.h"

enum event_type { BEGINS = 1, ENDS, IS_INSTANT, IS_COUNTER };

/* -- annotations ------------------------------------------------------------------------------------ */

struct annotation {
    struct text name;
    uint64_t name_number;
    bool has_entries, has_items;
    uint32_t tag;         /* of its value: the first in the schema that it has; 0: none */
    uint64_t number;
    struct text text;
};

static bool read_annotation(struct text message, struct annotation *annotation) {
    struct cursor cursor = cursor_of(message);
    struct field field = {0};
    *annotation = (struct annotation){.name = {message.at, 0}};
    while (next_field(&cursor, &field)) {
        switch (field.tag) {
        case TAG(1, VARINT): annotation->name_number = field.number; break;
        case TAG(10, SIZED): annotation->name = field.text; break;
        case TAG(11, SIZED): annotation->has_entries = true; break;
        case TAG(12, SIZED): annotation->has_items = true; break;
        case TAG(2, VARINT): case TAG(3, VARINT): case TAG(4, VARINT): case TAG(5, FIXED64): case TAG(6, SIZED):
        case TAG(7, VARINT): case TAG(9, SIZED): case TAG(17, VARINT):
            if (annotation->tag != 0 && annotation->tag < field.tag) break;
            annotation->tag = field.tag;
            annotation->number = field.number;
            annotation->text = field.text;
        }
    }
    return !cursor.is_damaged;
}

/* Its name, or its name's number if no text has that number. */
static struct text annotation_name(
    const struct perfetto *reader, const struct sequence *sequence, const struct annotation *annotation, char number[24]
) {
    struct text name = annotation->name;
    if (name.size > 0 || interned(reader, sequence, ARGUMENT_NAMES, annotation->name_number, &name)) return name;
    snprintf(number, 24, "%llu", (unsigned long long)annotation->name_number);
    return text_of(number);
}

static bool put_annotation(
    struct perfetto *reader, const struct sequence *sequence, struct text message,
    const struct annotation *annotation, int depth
);

/* Whether a message is only an integer, which most items of lists are. */
static bool is_integer_item(struct text message, uint64_t *number) {
    struct cursor cursor = cursor_of(message);
    struct field field = {0};
    if (!next_field(&cursor, &field) || field.tag != TAG(4, VARINT) || cursor.at < cursor.end) return false;
    *number = field.number;
    return true;
}

/* The entries of a dictionary or the items of a list. */
static bool put_annotations(
    struct perfetto *reader, const struct sequence *sequence, struct text message, uint32_t tag, int depth
) {
    struct heap *heap = &reader->args.heap;
    struct cursor cursor = cursor_of(message);
    struct field field = {0};
    struct annotation inner;
    char number[24];
    uint64_t integer;
    bool is_first = true, is_list = tag == TAG(12, SIZED);
    if (!put(heap, is_list ? "[" : "{")) return fails(&reader->kept, NO_MEMORY);
    while (next_field(&cursor, &field)) {
        if (field.tag != tag) continue;
        if (is_list && is_integer_item(field.text, &integer)) {
            if ((!is_first && !put(heap, ",")) || !put_integer(heap, (int64_t)integer))
                return fails(&reader->kept, NO_MEMORY);
            is_first = false;
            continue;
        }
        if (!read_annotation(field.text, &inner)) return fails(&reader->kept, DAMAGED);
        if (heap->size > MOST_EVENT_BYTES) return fails(&reader->kept, TOO_LARGE);
        if (!is_first && !put(heap, ",")) return fails(&reader->kept, NO_MEMORY);
        is_first = false;
        if (!is_list) {
            struct text name = annotation_name(reader, sequence, &inner, number);
            if (!put_text(reader->args.json, heap, name.at, name.size, true) || !put(heap, ":"))
                return fails(&reader->kept, NO_MEMORY);
        }
        if (!put_annotation(reader, sequence, field.text, &inner, depth)) return false;
    }
    return put(heap, is_list ? "]" : "}") || fails(&reader->kept, NO_MEMORY);
}

/* The value of an annotation as JSON. */
static bool put_annotation(
    struct perfetto *reader, const struct sequence *sequence, struct text message,
    const struct annotation *annotation, int depth
) {
    struct heap *heap = &reader->args.heap;
    struct text text = annotation->text;
    bool done;
    if (depth == MOST_DEPTH) return fails(&reader->kept, DAMAGED);
    if (annotation->has_entries) return put_annotations(reader, sequence, message, TAG(11, SIZED), depth + 1);
    if (annotation->has_items) return put_annotations(reader, sequence, message, TAG(12, SIZED), depth + 1);
    switch (annotation->tag) {
    case TAG(2, VARINT): done = put(heap, annotation->number ? "true" : "false"); break;
    case TAG(4, VARINT): done = put_integer(heap, (int64_t)annotation->number); break;
    case TAG(5, FIXED64): done = put_double(heap, double_of(annotation->number)); break;
    case TAG(9, SIZED): done = put_json(&reader->args, heap, text); break;
    case TAG(3, VARINT): case TAG(7, VARINT): done = put_unsigned(heap, annotation->number); break;
    case TAG(17, VARINT):
        if (!interned(reader, sequence, ARGUMENT_TEXTS, annotation->number, &text)) {
            done = put(heap, "null");
            break;
        }
        /* fall through */
    case TAG(6, SIZED): done = put_text(reader->args.json, heap, text.at, text.size, true); break;
    default: done = put(heap, "[]");   /* an empty list has no values */
    }
    return done || fails(&reader->kept, NO_MEMORY);
}

/* An annotation of an event becomes an argument. */
static bool add_annotation(struct perfetto *reader, const struct sequence *sequence, struct text message) {
    struct annotation annotation;
    char number[24];
    if (!read_annotation(message, &annotation)) return fails(&reader->kept, DAMAGED);
    struct text name = renamed(reader->words.arguments, annotation_name(reader, sequence, &annotation, number));
    if (!args_begin(&reader->args, &reader->kept, name)) return false;
    if (!annotation.has_entries && !annotation.has_items && annotation.tag == TAG(4, VARINT)) {
        reader->args.current->is_integer = true;
        reader->args.current->integer = (int64_t)annotation.number;
    }
    return put_annotation(reader, sequence, message, &annotation, 0) && args_end(&reader->args);
}

/* -- events ----------------------------------------------------------------------------------------- */

struct track_event {
    uint64_t type, name_number, track;
    struct text name;
    bool has_track, has_count, has_words;
    int64_t count;
    double real_count;
};

/* Adds a word to the event's categories, separated by commas. */
static bool add_word(struct perfetto *reader, struct track_event *event, struct text word) {
    bool done = (!event->has_words || put(&reader->category_text, ",")) &&
                put_text(reader->args.json, &reader->category_text, word.at, word.size, false);
    event->has_words = true;
    if (reader->category_text.size > MOST_EVENT_BYTES) return fails(&reader->kept, TOO_LARGE);
    return done || fails(&reader->kept, NO_MEMORY);
}

/* Categories by number follow those by name. */
static bool add_categories(struct perfetto *reader, const struct sequence *sequence, struct track_event *event) {
    uint64_t number;
    for (size_t at = 0; at < reader->category_numbers.size; at += sizeof number) {
        struct text word = {(const uint8_t *)"", 0};
        memcpy(&number, reader->category_numbers.bytes + at, sizeof number);
        interned(reader, sequence, CATEGORIES, number, &word);
        if (!add_word(reader, event, word)) return false;
    }
    return true;
}

/* Numbers that may be packed into one field; `size`: bytes of each, 0: as varints. */
static bool add_numbers(struct perfetto *reader, struct heap *heap, const struct field *field, int size) {
    uint64_t number;
    if ((field->tag & 7) != SIZED)
        return heap_add(heap, &field->number, sizeof field->number) || fails(&reader->kept, NO_MEMORY);
    struct cursor packed = cursor_of(field->text);
    while (packed.at < packed.end && (size ? next_fixed(&packed, size, &number) : next_varint(&packed, &number)))
        if (!heap_add(heap, &number, sizeof number)) return fails(&reader->kept, NO_MEMORY);
    return !packed.is_damaged || fails(&reader->kept, DAMAGED);
}

/* Reads an event; its annotations, categories and flows go to the reader. */
static bool read_event_fields(
    struct perfetto *reader, const struct sequence *sequence, struct text message, struct track_event *event
) {
    struct cursor cursor = cursor_of(message);
    struct field field = {0};
    bool done = true;
    *event = (struct track_event){.name = {message.at, 0}};
    reader->category_text.size = reader->category_numbers.size = reader->flows.size = 0;
    args_clear(&reader->args);
    while (done && next_field(&cursor, &field)) {
        switch (field.tag) {
        case TAG(3, VARINT): case TAG(3, SIZED):
            done = add_numbers(reader, &reader->category_numbers, &field, 0);
            break;
        case TAG(4, SIZED): done = add_annotation(reader, sequence, field.text); break;
        case TAG(9, VARINT): event->type = (uint32_t)field.number; break;
        case TAG(10, VARINT): event->name_number = field.number; break;
        case TAG(11, VARINT): event->track = field.number, event->has_track = true; break;
        case TAG(22, SIZED): done = add_word(reader, event, field.text); break;
        case TAG(23, SIZED): event->name = field.text; break;
        case TAG(30, VARINT): event->count = (int64_t)field.number, event->has_count = true; break;
        case TAG(44, FIXED64): event->real_count = double_of(field.number); break;
        case TAG(47, FIXED64): case TAG(47, SIZED): case TAG(48, FIXED64): case TAG(48, SIZED):
            done = add_numbers(reader, &reader->flows, &field, 8);
            break;
        }
    }
    if (cursor.is_damaged) return fails(&reader->kept, DAMAGED);
    return done && add_categories(reader, sequence, event);
}

/* The event's category: an argument called cat, if it is text, or its categories. */
static bool put_category(struct perfetto *reader, struct record *record) {
    struct heap *heap = &reader->records;
    const struct member *found = args_find(&reader->args, "cat");
    struct text category = {reader->category_text.bytes, reader->category_text.size};
    size_t begin = heap->size;
    if (found != NULL && found->value_size > 2 && is_string(args_value(&reader->args, found))) {
        struct span quoted = unquoted(args_value(&reader->args, found));
        quoted.has_escapes = memchr(quoted.begin, '\\', (size_t)(quoted.end - quoted.begin)) != NULL;
        if (!heap_reserve(&reader->category_text, found->value_size)) return false;
        category.at = reader->category_text.bytes;
        category.size = json_unescape(&quoted, reader->category_text.bytes);
    }
    if (category.size == 0 && args_find(&reader->args, "cuda_sync_kind")) category = text_of("cuda_sync");
    category = renamed(reader->words.categories, category);
    if (!heap_add(heap, category.at, category.size)) return false;
    record->has |= HAS_CATEGORY;
    record->category_size = (uint32_t)(heap->size - begin);
    return true;
}

static bool put_name(struct perfetto *reader, struct record *record, struct text name) {
    size_t begin = reader->records.size;
    if (!has_text(name)) return true;
    if (!put_text(reader->args.json, &reader->records, name.at, name.size, false)) return false;
    record->has |= HAS_NAME;
    record->name_size = (uint32_t)(reader->records.size - begin);
    return true;
}

static bool put_arguments(struct perfetto *reader, struct record *record, const struct track_event *event) {
    size_t begin = reader->records.size;
    if (event != NULL && event->type == IS_COUNTER) {
        if (event->has_count ? !put_integer(&reader->records, event->count)
                             : !put_double(&reader->records, event->real_count))
            return false;
    } else {
        record_links(record, &reader->args);
        if (!args_write(&reader->args, &reader->records, event == NULL ? NULL : "cat")) return false;
    }
    record->args_size = (uint32_t)(reader->records.size - begin);
    return true;
}

/* What the end of a slice says is kept in memory until its begin becomes a row. */
static bool keep_end(struct perfetto *reader, struct record *record, const struct track_event *event) {
    struct heap *heap = &reader->records;
    size_t begin = heap->size, capacity = reader->ends.capacity;
    if (reader->args.count == 0 && reader->flows.size == 0) return true;
    if (!keep_item(&reader->kept, (void **)&reader->last_words, reader->n_last_words, &reader->last_capacity,
                   sizeof *reader->last_words))
        return false;
    record->n_flows = (uint32_t)(reader->flows.size / sizeof(uint64_t));
    if (!put_arguments(reader, record, event)) return fails(&reader->kept, NO_MEMORY);
    reader->last_words[reader->n_last_words++] = (struct last_words){record->mark, (int64_t)reader->ends.size};
    if (!heap_add(&reader->ends, record, sizeof *record) ||
        !heap_add(&reader->ends, heap->bytes + begin, heap->size - begin) ||
        !heap_add(&reader->ends, reader->flows.bytes, reader->flows.size))
        return fails(&reader->kept, NO_MEMORY);
    heap->size = begin;
    return keep(&reader->kept, (int64_t)(reader->ends.capacity - capacity));
}

static bool read_track_event(struct perfetto *reader, struct sequence *sequence, const struct packet *packet) {
    struct track_event event;
    struct heap *heap = &reader->records;
    if (!read_event_fields(reader, sequence, packet->track_event, &event)) return false;
    if (event.type < BEGINS || event.type > IS_COUNTER || packet->timestamp > INT64_MAX ||
        packet->clock >= FIRST_OWN_CLOCK) {
        reader->odd_events++;
        return true;
    }
    uint64_t uuid = event.has_track ? event.track : sequence->has_track ? sequence->track : 0;
    int64_t track = track_of(reader, uuid);
    if (track < 0) return false;
    struct record record = {
        .kind = event.type == IS_COUNTER ? COUNTER : event.type == IS_INSTANT ? INSTANT : SLICE,
        .at = (int64_t)packet->timestamp, .track = (uint32_t)track,
        .n_flows = (uint32_t)(reader->flows.size / sizeof(uint64_t)),
        .mark = (uint32_t)reader->marks.count,
    };
    bool is_end = event.type == ENDS;
    if (record.kind == SLICE && !add_mark(&reader->marks, &reader->kept, record.at, record.track, is_end)) return false;
    if (is_end) return keep_end(reader, &record, &event);
    if (event.name.size == 0) {
        event.name.at = NULL;
        interned(reader, sequence, NAMES, event.name_number, &event.name);
    }
    size_t begin = record_begin(heap);
    if (begin == SIZE_MAX || !put_name(reader, &record, event.name) || !put_category(reader, &record) ||
        !put_arguments(reader, &record, &event) || !heap_add(heap, reader->flows.bytes, reader->flows.size))
        return fails(&reader->kept, NO_MEMORY);
    return record_end(heap, begin, &record, &reader->kept);
}

#endif
