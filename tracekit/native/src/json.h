/* JSON text, scanned once, front to back: checked, and compacted on the way if requested. Values are here,
 * strings in json_string.h, their common basis in json_scan.h. JSON here is RFC 8259 plus the extensions that
 * DuckDB's parser accepts: NaN and Infinity in any case, and a comma after the last member. Strings hold
 * valid UTF-8, no raw control character and no half of a surrogate pair.
 * https://www.rfc-editor.org/rfc/rfc8259 A scanning function takes the address where something begins and
 * returns the address after it, or NULL: then `reason` names the error, or is NULL if the text ends too
 * early.
 */

#ifndef TRACEKIT_JSON_H
#define TRACEKIT_JSON_H

#include "json_string.h"

/* Called for each member of an object, with its key (as written between its quotes) and the address of its
 * value; returns the address after the value, or NULL. */
typedef const uint8_t *json_member(void *context, struct json *json, const struct span *key, const uint8_t *value);

/* The address after `word`, in any case, if the text has it here; else `at`; NULL if the text ends in it. */
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

/* The address after a scalar value. */
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

/* From a key, which is stored, to its value. */
static const uint8_t *key_end(struct json *json, const uint8_t *at, struct span *key) {
    if (*at != '"') return json_wrong(json, "Expecting property name enclosed in double quotes");
    key->begin = at + 1;
    unsigned plain = json->end - at > 8 ? plain_bytes(at + 1) : 8;
    if (plain < 8 && at[1 + plain] == '"') {   /* most keys are short */
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

/* From the end of a member to the next one, or to the `closing` bracket. */
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

/* The kind of bracket at each depth is a bit, so that no nesting is too deep for the stack. */
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

#endif
