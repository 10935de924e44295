/* JSON strings: scanned and checked, eight bytes at a time, and the text that they stand for. */

#ifndef TRACEKIT_JSON_STRING_H
#define TRACEKIT_JSON_STRING_H

#include "json_scan.h"

#define EACH_BYTE(b) (0x0101010101010101u * (uint64_t)(b))

/* The number of the eight bytes before a quote, an escape, a control character or a byte that is not ASCII.
 * The lowest byte whose top bit is set in `found` is such a byte; higher bits may be set by a borrow. */
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

/* Text that a string may not hold, from `at` to `end`: a control character becomes an escape, invalid UTF-8
 * becomes U+FFFD. */
static const uint8_t *forbidden(struct json *json, const uint8_t *at, const uint8_t *end, const char *reason) {
    static const char digits[] = "0123456789abcdef", no_character[] = "\xef\xbf\xbd";
    char escape[] = {'\\', 'u', '0', '0', digits[*at >> 4 & 1], digits[*at & 15]};
    bool is_control = *at < ' ';
    const char *instead = is_control ? escape : no_character;
    size_t size = is_control ? sizeof escape : sizeof no_character - 1;
    if (!json->mends) {
        json->needs_mending = true;
        return json_wrong(json, reason);
    }
    json->was_mended |= !is_control;
    if (json->run == NULL) return end;
    if (!copy_run(json, at) || !heap_add(json->heap, instead, size)) return json_wrong(json, json_no_memory);
    json->run = end;
    return end;
}

static const uint8_t *half_pair(struct json *json, const uint8_t *at) {
    return forbidden(json, at, at + 6, "Half of a surrogate pair");
}

/* The address after an escape that begins at the backslash `at`. */
static const uint8_t *escape_end(struct json *json, const uint8_t *at) {
    if (json->end - at < 2) return runs_out(json);
    if (at[1] != 'u') return memchr("\"\\/bfnrt", at[1], 8) ? at + 2 : json_wrong(json, "Invalid \\escape");
    if (json->end - at < 6) return runs_out(json);
    int32_t unit = hex4(at + 2);
    if (unit < 0) return json_wrong(json, "Invalid \\uXXXX escape");
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

/* The address after the closing quote of a string whose opening quote is at `at`; notes whether it has
 * escapes. */
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

/* -- their text -------------------------------------------------------------------------------- */

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
