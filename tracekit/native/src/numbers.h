/* Numbers in JSON text: scaled integers, exact or rounded, and numbers for text in their place. */

#ifndef TRACEKIT_NUMBERS_H
#define TRACEKIT_NUMBERS_H

#include "json.h"

/* Fast path for numbers of few digits that have no exponent and need no rounding, which nearly all are: returns the
 * address after the number, and its value times 10^`scale`. NULL for any other text, and near the text's end. */
static const uint8_t *short_number(struct json *json, const uint8_t *at, int scale, int64_t *value) {
    enum { MOST_DIGITS = 19, MOST_BYTES = MOST_DIGITS + 3 };   /* of 64 bits; a sign, a point and more */
    uint64_t digits = 0;
    bool negative = *at == '-';
    if (json->end - at < MOST_BYTES) return NULL;
    const uint8_t *begin = at + negative, *last = begin + MOST_DIGITS + 1, *point = NULL;
    for (at = begin; at < last; at++) {
        unsigned digit = (unsigned)*at - '0';
        if (digit <= 9) digits = digits * 10 + digit;
        else if (*at == '.' && point == NULL) point = at;
        else break;
    }
    ptrdiff_t n_digits = at - begin - (point != NULL);
    ptrdiff_t whole = point == NULL ? n_digits : point - begin, decimals = n_digits - whole;
    if (whole == 0 || (whole > 1 && *begin == '0') || (point != NULL && decimals == 0)) return NULL;
    if (is_digit(*at) || (*at | 0x20) == 'e') return NULL;
    if (decimals > scale || n_digits + (scale - decimals) > MOST_DIGITS) return NULL;
    for (; decimals < scale; decimals++) digits *= 10;
    if (digits > INT64_MAX) return NULL;
    *value = negative ? -(int64_t)digits : (int64_t)digits;
    return at;
}

/* A decimal number, as JSON or text has it, times 10^`scale`, rounded half away from zero; false if
 * it is not a number or does not fit. `exact`: nothing was rounded. */
static bool decimal(struct span number, int scale, int64_t *value, bool *exact) {
    enum { MOST_DIGITS = 36, MOST_EXPONENT = 9999 };
    const uint8_t *at = number.begin, *end = number.end;
    unsigned __int128 digits = 0, limit;
    int n_digits = 0, exponent = 0;
    bool negative = at < end && *at == '-', point = false, any = false, rest = false;
    for (at += negative; at < end && ((*at >= '0' && *at <= '9') || (*at == '.' && !point)); at++) {
        if (*at == '.') {
            point = true;
            continue;
        }
        any = true;
        if (n_digits < MOST_DIGITS) {
            digits = digits * 10 + (unsigned)(*at - '0');
            n_digits += digits > 0;
            scale -= point;
        } else {
            rest |= *at > '0';
            scale += !point;
        }
    }
    if (!any) return false;
    if (at < end && (*at | 0x20) == 'e') {
        bool minus = ++at < end && *at == '-';
        if (at < end && (*at == '-' || *at == '+')) at++;
        if (at == end) return false;
        for (; at < end && *at >= '0' && *at <= '9'; at++)
            if (exponent < MOST_EXPONENT) exponent = exponent * 10 + (*at - '0');
        scale += minus ? -exponent : exponent;
    }
    if (at < end) return false;
    *exact = !rest;
    limit = (unsigned __int128)INT64_MAX + negative;
    for (; scale > 0 && digits > 0 && digits <= limit; scale--) digits *= 10;
    if (scale < 0) {
        unsigned last = 0;
        for (; scale < 0 && (digits > 0 || last > 0); scale++) {
            *exact = *exact && last == 0;
            last = (unsigned)(digits % 10);
            digits /= 10;
        }
        *exact = *exact && last == 0;
        digits += last >= 5;
    }
    if (digits > limit) return false;
    *value = negative ? (int64_t)(0 - (uint64_t)digits) : (int64_t)digits;
    return true;
}

/* A value as written in the text; its end is NULL if it does not end. */
static inline struct span token_at(struct json *json, const uint8_t *at) {
    const uint8_t *end = *at == '{' || *at == '[' ? json_value(json, at) : scalar_end(json, at);
    return (struct span){at, end, json->has_escapes};
}

static bool is_string(struct span token) { return *token.begin == '"'; }

static struct span unquoted(struct span token) {
    return is_string(token) ? (struct span){token.begin + 1, token.end - 1, token.has_escapes} : token;
}

/* Whether it is written as an integer, without point or exponent. */
static bool is_plain(struct span number) {
    for (const uint8_t *at = number.begin; at < number.end; at++)
        if (*at != '-' && (*at < '0' || *at > '9')) return false;
    return true;
}

/* A number for text that names a process or a thread (FNV-1a, 40 bits).
 * http://www.isthe.com/chongo/tech/comp/fnv */
static int64_t number_of_text(struct span text) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (const uint8_t *at = text.begin; at < text.end; at++) hash = (hash ^ *at) * 0x100000001b3u;
    return -1 - (int64_t)(hash >> 24);
}

/* What stands for a process or a thread: an integer, or a number for other text; false for null. */
static bool place_number(struct span token, int64_t *value) {
    struct span bare = unquoted(token);
    bool exact;
    if (is_plain(bare) && decimal(bare, 0, value, &exact)) return true;
    *value = number_of_text(bare);
    return *token.begin != 'n';
}

#endif
