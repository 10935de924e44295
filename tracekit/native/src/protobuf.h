/* A cursor over the fields of a protobuf message, which may be damaged or hostile.
 * https://protobuf.dev/programming-guides/encoding */

#ifndef TRACEKIT_PROTOBUF_H
#define TRACEKIT_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* How a field is encoded. Groups, which no schema here has, count as damage. */
enum wire { VARINT = 0, FIXED64 = 1, SIZED = 2, FIXED32 = 5 };

/* The loops over fields are where the time goes. */
#define INLINE inline __attribute__((always_inline))

/* A field's number and encoding, as written before it. */
#define TAG(number, wire) ((uint32_t)(number) << 3 | (wire))

/* Bytes in a message: a string, or a message of their own. */
struct text {
    const uint8_t *at;
    size_t size;
};

struct field {
    uint32_t tag;
    uint64_t number;    /* VARINT, FIXED64, FIXED32; else that of an earlier field */
    struct text text;   /* SIZED; likewise */
};

struct cursor {
    const uint8_t *at, *end;
    bool is_damaged;
};

static inline struct cursor cursor_of(struct text message) {
    return (struct cursor){message.at, message.at + message.size, false};
}

static inline struct text text_of(const char *constant) {
    return (struct text){(const uint8_t *)constant, strlen(constant)};
}

static inline bool text_is(struct text text, const char *constant) {
    size_t size = strlen(constant);
    return text.size == size && memcmp(text.at, constant, size) == 0;
}

static inline bool damage(struct cursor *cursor) {
    cursor->is_damaged = true;
    return false;
}

static bool long_varint(struct cursor *cursor, uint64_t *value) {
    *value = 0;
    for (int shift = 0; shift < 70 && cursor->at < cursor->end; shift += 7) {
        uint8_t byte = *cursor->at++;
        *value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return true;
    }
    return damage(cursor);
}

static INLINE bool next_varint(struct cursor *cursor, uint64_t *value) {
    if (cursor->at >= cursor->end || *cursor->at >= 128) return long_varint(cursor, value);
    *value = *cursor->at++;   /* most are short */
    return true;
}

/* Numbers of a fixed size are little-endian. */
static inline bool next_fixed(struct cursor *cursor, int size, uint64_t *value) {
    if (cursor->end - cursor->at < size) return damage(cursor);
    *value = 0;
    for (int i = size - 1; i >= 0; i--) *value = *value << 8 | cursor->at[i];
    cursor->at += size;
    return true;
}

/* Reads the next field; false at the message's end, or where it is damaged. */
static INLINE bool next_field(struct cursor *cursor, struct field *field) {
    uint64_t tag, size;
    if (cursor->at >= cursor->end || cursor->is_damaged || !next_varint(cursor, &tag)) return false;
    if (tag > UINT32_MAX || tag >> 3 == 0) return damage(cursor);
    field->tag = (uint32_t)tag;
    switch (tag & 7) {
    case VARINT: return next_varint(cursor, &field->number);
    case FIXED64: return next_fixed(cursor, 8, &field->number);
    case FIXED32: return next_fixed(cursor, 4, &field->number);
    case SIZED:
        if (!next_varint(cursor, &size)) return false;
        if (size > (uint64_t)(cursor->end - cursor->at)) return damage(cursor);
        field->text = (struct text){cursor->at, (size_t)size};
        cursor->at += size;
        return true;
    default: return damage(cursor);
    }
}

static inline double double_of(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

#endif
