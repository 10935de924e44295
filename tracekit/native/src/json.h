/* JSON text, scanned once, front to back: checked, and compacted on the way where that is asked for.
 *
 * What is JSON here: RFC 8259, and what DuckDB's parser takes beyond it, NaN and Infinity in any case and
 * a comma behind the last member. Strings hold no raw control characters, valid UTF-8 and no half of a
 * surrogate pair. https://www.rfc-editor.org/rfc/rfc8259
 *
 * A scanning function takes the place where something begins and returns the place behind it, or NULL:
 * then `reason` says what is wrong, or is NULL where the text ends too early.
 */

#ifndef TRACEKIT_JSON_H
#define TRACEKIT_JSON_H

#include "batch.h"

#define JSON_DEPTH (1 << 16)

/* The reason where memory has run out. */
static const char json_no_memory[] = "out of memory";

struct json {
    const uint8_t *end;
    const char *reason;
    struct heap *heap;     /* where compacted text goes */
    bool has_escapes;      /* whether the last string had any */
    bool mends;            /* what strings may not hold is replaced in what is copied, and that is noted: */
    bool was_mended;
    const uint8_t *run;    /* what is to be copied to it next begins here; NULL: nothing is copied */
    uint8_t is_object[JSON_DEPTH / 8];
};

/* A part of the text, or of a string between its quotes. */
struct span {
    const uint8_t *begin, *end;
    bool has_escapes;
};

/* Called for each member of an object, with its key (as it stands between its quotes) and the place of
 * its value; returns the place behind the value, or NULL. */
typedef const uint8_t *json_member(void *context, struct json *json, const struct span *key, const uint8_t *value);

static const uint8_t *json_wrong(struct json *json, const char *reason) {
    json->reason = reason;
    return NULL;
}

static const uint8_t *runs_out(struct json *json) { return json_wrong(json, NULL); }

/* -- copying -------------------------------------------------------------------------------------- */

/* From here on what is scanned is copied to the heap, without white space between tokens. */
static void json_copy(struct json *json, const uint8_t *at) { json->run = at; }

static inline bool copy_run(struct json *json, const uint8_t *end) {
    enum { AT_LEAST = 32 };   /* copied of a short run: what is behind it is written over */
    size_t size = (size_t)(end - json->run);
    struct heap *heap = json->heap;
    if (size <= AT_LEAST && heap->capacity - heap->size >= AT_LEAST && json->end - json->run >= AT_LEAST) {
        memcpy(heap->bytes + heap->size, json->run, AT_LEAST);
    } else {
        if (!heap_reserve(heap, size)) return false;
        memcpy(heap->bytes + heap->size, json->run, size);
    }
    heap->size += size;
    return true;
}

/* Ends that; false when there is no memory. */
static bool json_copied(struct json *json, const uint8_t *at) {
    bool done = copy_run(json, at);
    json->run = NULL;
    return done;
}

/* Behind a comma that nothing follows: it is not copied. */
static const uint8_t *drop_comma(struct json *json, const uint8_t *at) {
    if (json->run != NULL) {
        if (!copy_run(json, at)) return json_wrong(json, json_no_memory);
        json->heap->size -= 1;
        json->run = at;
    }
    return at;
}

/* -- tokens --------------------------------------------------------------------------------------- */

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

/* The next byte that is no white space; NULL where there is none. */
static inline const uint8_t *json_space(struct json *json, const uint8_t *at) {
    if (at < json->end && *at > ' ') return at;
    /* Most often it is one blank. */
    if (json->run == NULL && json->end - at > 1 && *at == ' ' && at[1] > ' ') return at + 1;
    return skip_space(json, at);
}

#define EACH_BYTE(b) (0x0101010101010101u * (uint64_t)(b))

/* Of eight bytes of a string, how many come before a quote, an escape, a control character or what is not
 * ASCII. The lowest byte whose top bit is set in `found` is such a one; higher ones may be set by a borrow. */
static unsigned plain_bytes(const uint8_t *at) {
    uint64_t x, quote, escape, found;
    memcpy(&x, at, sizeof x);
    if (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) x = __builtin_bswap64(x);
    quote = x ^ EACH_BYTE('"');
    escape = x ^ EACH_BYTE('\\');
    found = x | ((quote - EACH_BYTE(1)) & ~quote) | ((escape - EACH_BYTE(1)) & ~escape) | ((x - EACH_BYTE(' ')) & ~x);
    found &= EACH_BYTE(0x80);
    return found ? (unsigned)__builtin_ctzll(found) / 8 : 8;
}

/* The value of four hexadecimal digits, or -1. */
static int32_t hex4(const uint8_t *at) {
    int32_t value = 0;
    for (int i = 0; i < 4; i++) {
        uint8_t c = at[i], letter = (uint8_t)((c | 0x20) - 'a');
        if (!is_digit(c) && letter > 5) return -1;
        value = value << 4 | (is_digit(c) ? c - '0' : letter + 10);
    }
    return value;
}

/* What a string may not hold, from `at` to `end`: returns that, or NULL. A control character becomes an escape, what
 * is no character becomes U+FFFD. */
static const uint8_t *forbidden(struct json *json, const uint8_t *at, const uint8_t *end, const char *reason) {
    static const char digits[] = "0123456789abcdef", no_character[] = "\xef\xbf\xbd";
    char escape[] = {'\\', 'u', '0', '0', digits[*at >> 4 & 1], digits[*at & 15]};
    bool is_control = *at < ' ';
    const char *instead = is_control ? escape : no_character;
    size_t size = is_control ? sizeof escape : sizeof no_character - 1;
    if (!json->mends) return json_wrong(json, reason);
    json->was_mended = true;
    if (json->run == NULL) return end;
    if (!copy_run(json, at) || !heap_reserve(json->heap, size)) return json_wrong(json, json_no_memory);
    memcpy(json->heap->bytes + json->heap->size, instead, size);
    json->heap->size += size;
    json->run = end;
    return end;
}

static const uint8_t *half_pair(struct json *json, const uint8_t *at) {
    return forbidden(json, at, at + 6, "Half of a surrogate pair");
}

/* Behind an escape that begins at the backslash `at`. */
static const uint8_t *escape_end(struct json *json, const uint8_t *at) {
    if (json->end - at < 2) return runs_out(json);
    if (at[1] != 'u') return memchr("\"\\/bfnrt", at[1], 8) ? at + 2 : json_wrong(json, "Invalid escape");
    if (json->end - at < 6) return runs_out(json);
    int32_t unit = hex4(at + 2);
    if (unit < 0) return json_wrong(json, "Invalid \\u escape");
    if (unit < 0xd800 || unit > 0xdfff) return at + 6;
    if (unit > 0xdbff) return half_pair(json, at);
    if (json->end - at > 6 && at[6] != '\\') return half_pair(json, at);
    if (json->end - at > 7 && at[7] != 'u') return half_pair(json, at);
    if (json->end - at < 12) return runs_out(json);
    int32_t low = hex4(at + 8);
    return low >= 0xdc00 && low <= 0xdfff ? at + 12 : half_pair(json, at);
}

/* Behind a character of several bytes of UTF-8. https://www.unicode.org/versions/latest, table 3-7 */
static const uint8_t *utf8_end(struct json *json, const uint8_t *at) {
    uint8_t lead = *at, low = 0x80, high = 0xbf;
    int more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
    if (lead < 0xc2 || lead > 0xf4) return json_wrong(json, "Invalid UTF-8");
    if (lead == 0xe0) low = 0xa0;
    if (lead == 0xed) high = 0x9f;
    if (lead == 0xf0) low = 0x90;
    if (lead == 0xf4) high = 0x8f;
    for (int i = 1; i <= more; i++) {
        if (at + i == json->end) return runs_out(json);
        if (at[i] < low || at[i] > high) return json_wrong(json, "Invalid UTF-8");
        low = 0x80;
        high = 0xbf;
    }
    return at + more + 1;
}

/* Behind the closing quote of a string whose opening quote is at `at`; notes whether it has escapes. */
static const uint8_t *json_string(struct json *json, const uint8_t *at) {
    json->has_escapes = false;
    at++;
    while (at < json->end) {
        if (json->end - at >= 8) {
            unsigned plain = plain_bytes(at);
            at += plain;
            if (plain == 8) continue;
        }
        uint8_t c = *at;
        if (c == '"') return at + 1;
        if (c == '\\') {
            json->has_escapes = true;
            at = escape_end(json, at);
        } else if (c >= 0x80) {
            const uint8_t *end = utf8_end(json, at);
            at = end != NULL || json->reason == NULL ? end : forbidden(json, at, at + 1, json->reason);
        } else if (c < ' ') at = forbidden(json, at, at + 1, "Invalid control character");
        else at++;
        if (at == NULL) return NULL;
    }
    return runs_out(json);
}

/* Behind `word`, in any case, if it stands here; `at` if not; NULL where the text ends in it. */
static const uint8_t *word_end(struct json *json, const uint8_t *at, const char *word) {
    const uint8_t *begin = at;
    for (; *word; word++, at++) {
        if (at == json->end) return runs_out(json);
        if ((*at | 0x20) != *word) return begin;
    }
    return at;
}

static const uint8_t *digits_end(struct json *json, const uint8_t *at) {
    while (at < json->end && is_digit(*at)) at++;
    return at;
}

static const uint8_t *number_end(struct json *json, const uint8_t *at) {
    const uint8_t *digits;
    if (*at == '-' && ++at == json->end) return runs_out(json);
    if (!is_digit(*at)) {
        const char *words[] = {"nan", "infinity", "inf"};
        for (int i = 0; i < 3; i++) {
            const uint8_t *end = word_end(json, at, words[i]);
            if (end != at) return end;
        }
        return json_wrong(json, "Expecting value");
    }
    digits = at;
    at = digits_end(json, at);
    if (*digits == '0' && at - digits > 1) return json_wrong(json, "Expecting value");
    if (at < json->end && *at == '.') {
        digits = at + 1;
        at = digits_end(json, digits);
        if (at == digits && at < json->end) return json_wrong(json, "Expecting value");
    }
    if (at < json->end && (*at | 0x20) == 'e') {
        at++;
        if (at < json->end && (*at == '+' || *at == '-')) at++;
        digits = at;
        at = digits_end(json, digits);
        if (at == digits && at < json->end) return json_wrong(json, "Expecting value");
    }
    return at < json->end ? at : runs_out(json);
}

static const uint8_t *constant_end(struct json *json, const uint8_t *at, const char *word) {
    for (; *word; word++, at++) {
        if (at == json->end) return runs_out(json);
        if (*at != (uint8_t)*word) return json_wrong(json, "Expecting value");
    }
    return at;
}

/* Behind a value that holds no other. */
static const uint8_t *scalar_end(struct json *json, const uint8_t *at) {
    switch (*at) {
    case '"': return json_string(json, at);
    case 't': return constant_end(json, at, "true");
    case 'f': return constant_end(json, at, "false");
    case 'n':
        if (at + 1 == json->end) return runs_out(json);
        if (at[1] == 'u') return constant_end(json, at, "null");
    }
    return number_end(json, at);
}

/* -- objects and arrays --------------------------------------------------------------------------- */

/* From a key, which is noted, to the place of its value. */
static const uint8_t *key_end(struct json *json, const uint8_t *at, struct span *key) {
    if (*at != '"') return json_wrong(json, "Expecting property name enclosed in double quotes");
    key->begin = at + 1;
    unsigned plain = json->end - at > 8 ? plain_bytes(at + 1) : 8;
    if (plain < 8 && at[1 + plain] == '"') {   /* as most keys are: short */
        at += plain + 2;
        key->has_escapes = false;
    } else {
        if ((at = json_string(json, at)) == NULL) return NULL;
        key->has_escapes = json->has_escapes;
    }
    key->end = at - 1;
    if ((at = json_space(json, at)) == NULL) return NULL;
    if (*at != ':') return json_wrong(json, "Expecting ':' delimiter");
    return json_space(json, at + 1);
}

/* From behind a member to the next one, or to the `closing` bracket. */
static const uint8_t *next_member(struct json *json, const uint8_t *at, uint8_t closing) {
    if ((at = json_space(json, at)) == NULL || *at == closing) return at;
    if (*at != ',') return json_wrong(json, "Expecting ',' delimiter");
    if ((at = json_space(json, at + 1)) == NULL) return NULL;
    return *at == closing ? drop_comma(json, at) : at;
}

static const uint8_t *json_members(struct json *json, const uint8_t *at, json_member *member, void *context) {
    struct span key;
    at = json_space(json, at + 1);
    while (at != NULL && *at != '}') {
        if ((at = key_end(json, at, &key)) == NULL) return NULL;
        if ((at = member(context, json, &key, at)) == NULL) return NULL;
        at = next_member(json, at, '}');
    }
    return at == NULL ? NULL : at + 1;
}

/* What is open at each depth is kept in a bit, so that no nesting is too deep for the stack. */
static void open_bracket(struct json *json, size_t depth, uint8_t bracket) {
    uint8_t bit = (uint8_t)(1 << depth % 8), *bits = &json->is_object[depth / 8];
    *bits = bracket == '{' ? *bits | bit : *bits & (uint8_t)~bit;
}

static uint8_t closing_bracket(struct json *json, size_t depth) {
    return json->is_object[depth / 8] >> depth % 8 & 1 ? '}' : ']';
}

static const uint8_t *json_value(struct json *json, const uint8_t *at) {
    size_t depth = 0;
    struct span key;
    for (;;) {
        if (*at == '{' || *at == '[') {
            if (depth == JSON_DEPTH) return json_wrong(json, "nested too deeply");
            open_bracket(json, depth++, *at);
            at = json_space(json, at + 1);
        } else {
            if ((at = scalar_end(json, at)) == NULL || depth == 0) return at;
            at = next_member(json, at, closing_bracket(json, depth - 1));
        }
        while (at != NULL && *at == closing_bracket(json, depth - 1)) {
            if (--depth == 0) return at + 1;
            at = next_member(json, at + 1, closing_bracket(json, depth - 1));
        }
        if (at != NULL && closing_bracket(json, depth - 1) == '}') at = key_end(json, at, &key);
        if (at == NULL) return NULL;
    }
}

/* -- text ----------------------------------------------------------------------------------------- */

static uint8_t *put_utf8(uint8_t *into, uint32_t c) {
    if (c < 0x80) {
        *into++ = (uint8_t)c;
        return into;
    }
    if (c >= 0x10000) {
        *into++ = (uint8_t)(0xf0 | c >> 18);
        *into++ = (uint8_t)(0x80 | (c >> 12 & 0x3f));
    } else if (c >= 0x800) *into++ = (uint8_t)(0xe0 | c >> 12);
    if (c >= 0x800) *into++ = (uint8_t)(0x80 | (c >> 6 & 0x3f));
    else *into++ = (uint8_t)(0xc0 | c >> 6);
    *into++ = (uint8_t)(0x80 | (c & 0x3f));
    return into;
}

/* The text of a string, given without its quotes; returns its size, which is at most the string's. */
static size_t json_unescape(const struct span *string, uint8_t *into) {
    if (!string->has_escapes) {
        memcpy(into, string->begin, (size_t)(string->end - string->begin));
        return (size_t)(string->end - string->begin);
    }
    static const char letters[] = "bfnrt", meant[] = "\b\f\n\r\t";
    const uint8_t *at = string->begin;
    uint8_t *begin = into;
    while (at < string->end) {
        const uint8_t *escape = memchr(at, '\\', (size_t)(string->end - at));
        size_t plain = (size_t)((escape ? escape : string->end) - at);
        memcpy(into, at, plain);
        into += plain;
        if (escape == NULL) break;
        uint8_t c = escape[1];
        at = escape + 2;
        if (c == 'u') {
            uint32_t unit = (uint32_t)hex4(at);
            at += 4;
            if (unit >= 0xd800 && unit <= 0xdbff) {
                unit = 0x10000 + ((unit - 0xd800) << 10) + ((uint32_t)hex4(at + 2) - 0xdc00);
                at += 6;
            }
            into = put_utf8(into, unit);
        } else {
            const char *letter = memchr(letters, c, 5);
            *into++ = letter ? (uint8_t)meant[letter - letters] : c;
        }
    }
    return (size_t)(into - begin);
}

#endif
