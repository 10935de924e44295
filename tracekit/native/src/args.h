/* The arguments of one event, written as JSON member by member: a repeated key keeps its last value. */

#ifndef TRACEKIT_ARGS_H
#define TRACEKIT_ARGS_H

#include "links.h"
#include "members.h"
#include "texts.h"

/* A member's key, with its quotes, and value in the heap of `args`. */
struct member {
    size_t key, key_size, value, value_size;
    int column;         /* of `event_row`; -1: none */
    bool is_integer;    /* the value is `integer` */
    int64_t integer;
};

struct args {
    struct heap heap;    /* an object without its last bracket */
    struct member *members, *current;
    int64_t count, capacity;
    bool has_repeats;    /* the heap has values that later ones replace */
    struct json *json;   /* for scanning */
    struct heap copy;    /* of text that may be JSON */
};

/* Keys up to this count are compared with a new one; profilers write fewer. Deeper JSON stays text. */
enum { MOST_COMPARED = 64, MOST_DEPTH = 100 };

static inline void args_clear(struct args *args) {
    args->heap.size = args->count = 0;
    args->has_repeats = false;
}

/* Begins a member: its value is what is added to the heap until `args_end`. */
static bool args_begin(struct args *args, struct kept *kept, struct text key) {
    struct heap *heap = &args->heap;
    if (heap->size > MOST_EVENT_BYTES) return fails(kept, TOO_LARGE);
    if (!keep_item(kept, (void **)&args->members, args->count, &args->capacity, sizeof *args->members)) return false;
    if (!put(heap, heap->size ? "," : "{")) return fails(kept, NO_MEMORY);
    size_t begin = heap->size;
    if (!put_text(args->json, heap, key.at, key.size, true) || !put(heap, ":")) return fails(kept, NO_MEMORY);
    size_t size = heap->size - begin - 1;
    int64_t place = 0, compared = args->count < MOST_COMPARED ? args->count : MOST_COMPARED;
    while (place < compared && (args->members[place].key_size != size ||
                                memcmp(heap->bytes + args->members[place].key, heap->bytes + begin, size) != 0))
        place++;
    if (place == compared) place = args->count++;
    else args->has_repeats = true;
    struct span name = {heap->bytes + begin + 1, heap->bytes + begin + size - 1, false};
    args->current = &args->members[place];
    *args->current = (struct member){begin, size, heap->size, 0, link_column(&name), false, 0};
    return true;
}

static inline bool args_end(struct args *args) {
    args->current->value_size = args->heap.size - args->current->value;
    return true;
}

static inline const struct member *args_find(const struct args *args, const char *key) {
    size_t size = strlen(key);
    for (int64_t i = 0; i < args->count; i++) {
        const struct member *member = &args->members[i];
        if (member->key_size == size + 2 && memcmp(args->heap.bytes + member->key + 1, key, size) == 0) return member;
    }
    return NULL;
}

static inline struct span args_value(const struct args *args, const struct member *member) {
    const uint8_t *begin = args->heap.bytes + member->value;
    return (struct span){begin, begin + member->value_size, false};
}

/* -- values ----------------------------------------------------------------------------------------- */

static inline bool put_unsigned(struct heap *heap, uint64_t value) {
    return value <= INT64_MAX ? put_integer(heap, (int64_t)value)
                              : put_integer(heap, (int64_t)(value / 10)) && put_integer(heap, (int64_t)(value % 10));
}

/* The shortest text that is read as the same number. */
static bool put_double(struct heap *heap, double value) {
    char text[32];
    if (value != value) return put(heap, "NaN");
    if (value - value != 0) return put(heap, value < 0 ? "-Infinity" : "Infinity");
    if (value > -1e15 && value < 1e15 && value == (double)(int64_t)value)
        return put_integer(heap, (int64_t)value) && put(heap, ".0");
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    for (char *at = text; *at; at++)
        if (*at == ',') *at = '.';   /* as some languages write it */
    return put(heap, text) && (strpbrk(text, ".e") != NULL || put(heap, ".0"));
}

/* Text that may be JSON: its value, or a string if it is damaged or too deep. */
static bool put_json(struct args *args, struct heap *heap, struct text text) {
    struct json *json = args->json;
    size_t begin = heap->size;
    args->copy.size = 0;
    /* A number ends before something else. */
    if (!heap_add(&args->copy, text.at, text.size) || !heap_add(&args->copy, " ", 1)) return false;
    json->end = args->copy.bytes + args->copy.size;
    json->heap = heap;
    const uint8_t *at = json_space(json, args->copy.bytes), *end = NULL;
    if (at != NULL) {
        json_copy(json, at);
        end = json_value(json, at);
        if (end != NULL && !json_copied(json, end)) return false;
        json->run = NULL;
    }
    bool is_value = end != NULL && json_space(json, end) == NULL;
    if (is_value && depth_of(heap->bytes + begin, heap->bytes + heap->size) <= MOST_DEPTH) return true;
    heap->size = begin;
    return put_text(json, heap, text.at, text.size, true);
}

/* -- whole members ---------------------------------------------------------------------------------- */

static bool args_integer(struct args *args, struct kept *kept, const char *key, int64_t value) {
    if (!args_begin(args, kept, text_of(key))) return false;
    args->current->is_integer = true;
    args->current->integer = value;
    return put_integer(&args->heap, value) ? args_end(args) : fails(kept, NO_MEMORY);
}

static bool args_unsigned(struct args *args, struct kept *kept, const char *key, uint64_t value) {
    if (value <= INT64_MAX) return args_integer(args, kept, key, (int64_t)value);
    if (!args_begin(args, kept, text_of(key))) return false;
    return put_unsigned(&args->heap, value) ? args_end(args) : fails(kept, NO_MEMORY);
}

/* Writes all members but the one called `without` as an object. */
static bool args_write(const struct args *args, struct heap *into, const char *without) {
    const struct member *skipped = without == NULL ? NULL : args_find(args, without);
    const uint8_t *bytes = args->heap.bytes;
    if (!heap_reserve(into, args->heap.size + 2)) return false;
    if (args->count > 0 && !args->has_repeats && skipped == NULL)
        return heap_add(into, bytes, args->heap.size) && put(into, "}");
    uint8_t *begin = into->bytes + into->size, *at = begin;
    *at++ = '{';
    for (const struct member *member = args->members; member < args->members + args->count; member++) {
        if (member == skipped) continue;
        if (at > begin + 1) *at++ = ',';
        memcpy(at, bytes + member->key, member->key_size);
        at += member->key_size;
        *at++ = ':';
        memcpy(at, bytes + member->value, member->value_size);
        at += member->value_size;
    }
    *at++ = '}';
    into->size += (size_t)(at - begin);
    return true;
}

/* The number in a member with a column; false: its value is not an integer. */
static bool member_number(const struct args *args, const struct member *member, int64_t *value) {
    bool exact;
    *value = member->integer;
    if (member->is_integer) return true;
    return decimal(unquoted(args_value(args, member)), 0, value, &exact) && exact;
}

static inline void args_free(struct args *args) {
    free(args->heap.bytes);
    free(args->members);
    free(args->copy.bytes);
    free(args->json);
}

#endif
