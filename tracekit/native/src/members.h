/* The members of a trace besides its events, from JSON text to JSON text that is compacted and mended, one
 * after the other. */

#ifndef TRACEKIT_MEMBERS_H
#define TRACEKIT_MEMBERS_H

#include "json.h"

/* Why reading events, or members, stopped. */
enum stop { AT_END, INSIDE, AT_BRACKET, AT_ERROR, OUT_OF_MEMORY, AT_EVENTS };

/* Where and why reading stopped. */
struct stopped {
    int64_t at;          /* after what was read and the separator that follows it; for AT_EVENTS, where they begin */
    int32_t reason;      /* of enum stop */
    int32_t many_labels; /* 1: the caller should take the new labels */
    const char *error;   /* AT_ERROR: the error there */
    int64_t mended_end;  /* after the last member, if characters were replaced in any; else 0 */
    int64_t size;
    uint8_t *bytes;      /* members: "key":value, ...; events: of struct verbatim. Freed by tracekit_free */
};

static bool is_key(const struct span *key, const char *name, size_t size) {
    uint8_t plain[96];   /* `traceEvents`, each letter an escape */
    if (key->has_escapes && key->end - key->begin <= (ptrdiff_t)sizeof plain)
        return json_unescape(key, plain) == size && memcmp(plain, name, size) == 0;
    return (size_t)(key->end - key->begin) == size && memcmp(key->begin, name, size) == 0;
}

/* Copies the member that begins at `at` to the heap. NULL on an error, or if the member is the events: then
 * `events` is where they begin. */
static const uint8_t *read_member(struct json *json, const uint8_t *at, const uint8_t **events) {
    static const char name[] = "traceEvents";
    struct span key;
    if (json->heap->size > 0 && !heap_add(json->heap, ",", 1)) return json_wrong(json, json_no_memory);
    json_copy(json, at);
    if ((at = key_end(json, at, &key)) == NULL) return NULL;
    /* Halves of surrogate pairs cannot be removed. */
    if (!json->was_mended && is_key(&key, name, sizeof name - 1)) {
        *events = at;
        return NULL;
    }
    if ((at = json_value(json, at)) == NULL) return NULL;
    return json_copied(json, at) ? at : json_wrong(json, json_no_memory);
}

/* Reads consecutive members, from after a trace's opening brace or from a later member on. */
TRACEKIT_EXPORT void tracekit_read_members(const uint8_t *text, int64_t size, struct stopped *out) {
    struct json *json = calloc(1, sizeof *json);
    struct heap heap = {0};
    const uint8_t *at = text, *end = text + size, *events = NULL, *members_end = text;
    bool was_mended = false;
    *out = (struct stopped){.reason = OUT_OF_MEMORY};
    if (json == NULL) return;
    json->end = end;
    json->heap = &heap;
    json->mends = true;
    for (;;) {
        while (at < end && (is_space(*at) || *at == ',')) at++;
        if (at == end || *at == '}') break;
        size_t before = heap.size;
        json->was_mended = false;
        const uint8_t *next = read_member(json, at, &events);
        if (next == NULL) {
            heap.size = before;
            json->run = NULL;
            break;
        }
        was_mended |= json->was_mended;
        at = members_end = next;
    }
    if (at == end) out->reason = AT_END;
    else if (events != NULL) out->reason = AT_EVENTS;
    else if (*at == '}') out->reason = AT_BRACKET;
    else if (json->reason == NULL) out->reason = INSIDE;
    else if (json->reason != json_no_memory) out->reason = AT_ERROR;
    if (out->reason == AT_ERROR) out->error = json->reason;
    out->at = (events == NULL ? at : events) - text;
    out->mended_end = was_mended ? members_end - text : 0;
    out->bytes = heap.bytes;
    out->size = (int64_t)heap.size;
    free(json);
}

TRACEKIT_EXPORT void tracekit_free(void *bytes) { free(bytes); }

/* -- one of them ---------------------------------------------------------------------------------- */

struct sought {
    const char *name;
    size_t size;
    struct span value;
};

static const uint8_t *seek_member(void *context, struct json *json, const struct span *key, const uint8_t *at) {
    struct sought *sought = context;
    const uint8_t *end = json_value(json, at);
    if (end != NULL && is_key(key, sought->name, sought->size)) sought->value = (struct span){at, end, false};
    return end;
}

/* How deep objects and arrays are nested in a valid text. */
static int32_t depth_of(const uint8_t *at, const uint8_t *end) {
    int32_t depth = 0, deepest = 0;
    bool inside = false;   /* of a string */
    for (; at < end; at++) {
        if (*at == '"') inside = !inside;
        else if (inside) at += *at == '\\';
        else if (*at == '{' || *at == '[') depth++;
        else if (*at == '}' || *at == ']') depth--;
        if (depth > deepest) deepest = depth;
    }
    return deepest;
}

/* Where the value of the last member of that name begins in a valid object; -1 if there is none. */
TRACEKIT_EXPORT int64_t tracekit_find_member(
    const uint8_t *text, int64_t size, const char *name, int64_t name_size, int64_t *end, int32_t *depth
) {
    struct json *json = calloc(1, sizeof *json);
    struct sought sought = {.name = name, .size = (size_t)name_size};
    if (json == NULL) return -1;
    json->end = text + size;
    json_members(json, text, seek_member, &sought);
    free(json);
    if (sought.value.begin == NULL) return -1;
    *end = sought.value.end - text;
    *depth = depth_of(sought.value.begin, sought.value.end);
    return sought.value.begin - text;
}

#endif
