/* Arguments that link events: they have columns of their own. */

#ifndef TRACEKIT_LINKS_H
#define TRACEKIT_LINKS_H

#include "event.h"
#include "numbers.h"

static inline bool key_is(const struct span *key, const char *name) {
    size_t size = strlen(name);
    return (size_t)(key->end - key->begin) == size && memcmp(key->begin, name, size) == 0;
}

/* The column of an argument; -1: none. */
static inline int link_column(const struct span *key) {
    switch (key->end - key->begin) {
    case 6: return key_is(key, "device") ? DEVICE : key_is(key, "stream") ? STREAM : -1;
    case 11:
        return key_is(key, "correlation")   ? CORRELATION
               : key_is(key, "External id") ? EXTERNAL_ID
               : key_is(key, "external id") ? OLD_EXTERNAL_ID
                                            : -1;
    default: return -1;
    }
}

/* The links of a row while its arguments are read. */
struct links {
    struct batch *batch;
    unsigned seen;   /* one bit for each key */
};

/* A member of `args`. */
static const uint8_t *link_member(void *context, struct json *json, const struct span *key, const uint8_t *at) {
    struct links *links = context;
    bool exact;
    int64_t value;
    int found = link_column(key), column = found == OLD_EXTERNAL_ID ? EXTERNAL_ID : found;
    if (found < 0) return token_at(json, at).end;
    bool is_first = !(links->seen & 1u << found) && !(found != column && is_set(links->batch, column));
    links->seen |= 1u << found;
    const uint8_t *end = short_number(json, at, 0, &value);
    if (end == NULL) {
        struct span token = token_at(json, at);
        if ((end = token.end) == NULL) return NULL;
        is_first = is_first && decimal(unquoted(token), 0, &value, &exact) && exact;
    }
    if (is_first) set_integer(links->batch, column, value);
    return end;
}

#endif
