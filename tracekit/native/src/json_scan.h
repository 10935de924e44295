/* The basis of scanning JSON: the text, its errors, copying scanned text, and white space. */

#ifndef TRACEKIT_JSON_SCAN_H
#define TRACEKIT_JSON_SCAN_H

#include "batch.h"

#define JSON_DEPTH (1 << 16)

/* The reason if memory has run out. */
static const char json_no_memory[] = "out of memory";

struct json {
    const uint8_t *end;
    const char *reason;
    struct heap *heap;     /* the destination of compacted text */
    bool has_escapes;      /* whether the last string had escapes */
    bool mends;            /* copying replaces text that strings may not hold; if it is not set, */
    bool needs_mending;    /* a string held such */
    bool was_mended;       /* a character was lost: U+FFFD took its place */
    const uint8_t *run;    /* the next text to copy to it begins here; NULL: nothing is copied */
    uint8_t is_object[JSON_DEPTH / 8];
};

/* A part of the text, or of a string between its quotes. */
struct span {
    const uint8_t *begin, *end;
    bool has_escapes;
};

static const uint8_t *json_wrong(struct json *json, const char *reason) {
    json->reason = reason;
    return NULL;
}

static const uint8_t *runs_out(struct json *json) { return json_wrong(json, NULL); }

/* -- copying -------------------------------------------------------------------------------------- */

/* From here on, scanned text is copied to the heap, without white space between tokens. */
static void json_copy(struct json *json, const uint8_t *at) { json->run = at; }

static inline bool copy_run(struct json *json, const uint8_t *end) {
    enum { AT_LEAST = 32 };   /* copies more than a short run: the rest is overwritten */
    size_t size = (size_t)(end - json->run);
    struct heap *heap = json->heap;
    if (size > AT_LEAST || heap->capacity - heap->size < AT_LEAST || json->end - json->run < AT_LEAST)
        return heap_add(heap, json->run, size);
    memcpy(heap->bytes + heap->size, json->run, AT_LEAST);
    heap->size += size;
    return true;
}

/* Stops copying; false when there is no memory. */
static bool json_copied(struct json *json, const uint8_t *at) {
    bool done = copy_run(json, at);
    json->run = NULL;
    return done;
}

/* After a comma that nothing follows: it is not copied. */
static const uint8_t *drop_comma(struct json *json, const uint8_t *at) {
    if (json->run != NULL) {
        if (!copy_run(json, at)) return json_wrong(json, json_no_memory);
        json->heap->size -= 1;
        json->run = at;
    }
    return at;
}

/* -- white space ------------------------------------------------------------------------------- */

static bool is_space(uint8_t c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

static bool is_digit(uint8_t c) { return c >= '0' && c <= '9'; }

static const uint8_t *skip_space(struct json *json, const uint8_t *at) {
    const uint8_t *begin = at;
    while (at < json->end && is_space(*at)) at++;
    if (json->run != NULL) {
        if (!copy_run(json, begin)) return json_wrong(json, json_no_memory);
        json->run = at;
    }
    return at < json->end ? at : runs_out(json);
}

/* The next byte that is not white space; NULL at the end of the text. */
static inline const uint8_t *json_space(struct json *json, const uint8_t *at) {
    if (at < json->end && *at > ' ') return at;
    /* Most often there is one blank. */
    if (json->run == NULL && json->end - at > 1 && *at == ' ' && at[1] > ' ') return at + 1;
    return skip_space(json, at);
}

#endif
