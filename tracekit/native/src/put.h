/* Text that is appended to a heap: strings, for JSON or as they are, and numbers. */

#ifndef TRACEKIT_PUT_H
#define TRACEKIT_PUT_H

#include "json.h"

#include <stdio.h>

static inline bool put(struct heap *heap, const char *text) { return heap_add(heap, text, strlen(text)); }

/* Whether a text of at least eight bytes is ASCII without quotes, backslashes and control characters. */
static inline bool is_plain_text(const uint8_t *at, size_t size) {
    for (size_t i = 0; i + 8 <= size; i += 8)
        if (plain_bytes(at + i) < 8) return false;
    return plain_bytes(at + size - 8) == 8;
}

static bool put_plain(struct heap *heap, const uint8_t *at, size_t size, bool is_quoted) {
    if (!heap_reserve(heap, size + 2)) return false;
    uint8_t *into = heap->bytes + heap->size;
    if (is_quoted) *into++ = '"';
    memcpy(into, at, size);
    into += size;
    if (is_quoted) *into++ = '"';
    heap->size = (size_t)(into - heap->bytes);
    return true;
}

/* Appends text, with escapes for JSON if it is quoted; what is not UTF-8 becomes U+FFFD. */
static bool put_text(struct json *json, struct heap *heap, const uint8_t *at, size_t size, bool is_quoted) {
    const uint8_t *end = at + size, *run = at;
    if (size >= 8 && is_plain_text(at, size)) return put_plain(heap, at, size, is_quoted);
    char escape[8];
    json->end = end;
    if (is_quoted && !put(heap, "\"")) return false;
    while (at < end) {
        if (end - at >= 8) {
            unsigned plain = plain_bytes(at);
            at += plain;
            if (plain == 8) continue;
        }
        bool is_escaped = is_quoted && (*at < ' ' || *at == '"' || *at == '\\');
        const uint8_t *next = *at < 0x80 ? at + 1 : utf8_end(json, at);
        if (is_escaped || next == NULL) {
            if (!heap_add(heap, run, (size_t)(at - run))) return false;
            if (!is_escaped) strcpy(escape, "\xef\xbf\xbd");
            else snprintf(escape, sizeof escape, *at < ' ' ? "\\u%04x" : "\\%c", *at);
            if (!put(heap, escape)) return false;
            run = next = at + 1;
        }
        at = next;
    }
    return heap_add(heap, run, (size_t)(end - run)) && (!is_quoted || put(heap, "\""));
}

static bool put_integer(struct heap *heap, int64_t value) {
    uint8_t text[20], *end = text + sizeof text, *at = end;
    uint64_t left = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do *--at = (uint8_t)('0' + left % 10);
    while (left /= 10);
    if (value < 0) *--at = '-';
    return heap_add(heap, at, (size_t)(end - at));
}

/* With a point, so that it stays a real number. */
static bool put_real(struct heap *heap, double value) {
    char text[32];
    if (value - value != 0) return put(heap, value < 0 ? "-Infinity" : "Infinity");
    int size = snprintf(text, sizeof text, "%.15g", value);
    for (int i = 0; i < size; i++)
        if (text[i] == ',') text[i] = '.';   /* as some languages write it */
    return put(heap, text) && (strspn(text, "-0123456789") < (size_t)size || put(heap, ".0"));
}

#endif
