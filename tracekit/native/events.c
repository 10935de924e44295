/* A trace's events, from JSON text to the columns of the table `event` (queries/schema/tables.sql says what
 * they mean), as an Arrow record batch. An event that the columns cannot say in full (an unknown or
 * repeated key, a textual timestamp ...) keeps its text in `raw`. */

#include "batch.h"
#include "json.h"

enum {
    EVENT_ID, PID, TID, TS, DUR, CORRELATION, EXTERNAL_ID, DEVICE, STREAM, FLOW_ID,
    PHASE, CATEGORY, NAME, FLOW_BIND, SCOPE, ARGS, RAW, COLUMNS,
};

static const struct column columns[COLUMNS] = {
    {"event_id", INTEGER}, {"pid", INTEGER}, {"tid", INTEGER}, {"ts_ns", INTEGER}, {"dur_ns", INTEGER},
    {"correlation", INTEGER}, {"external_id", INTEGER}, {"device_id", INTEGER}, {"stream", INTEGER},
    {"flow_id", INTEGER}, {"phase", TEXT}, {"category", TEXT}, {"name", TEXT}, {"flow_bind", TEXT},
    {"scope", TEXT}, {"args", JSON}, {"raw", JSON},
};

/* The event that is being read. */
struct reader {
    struct batch *batch;
    unsigned seen, args_seen;   /* which keys, one bit a column */
    int keys, reproduced;       /* how many keys there are, and how many the columns reproduce */
};

/* -- numbers -------------------------------------------------------------------------------------- */

/* What `decimal` says of nearly all numbers: of few digits, without exponent, and with nothing to round. */
static bool short_decimal(struct span number, int scale, int64_t *value) {
    enum { MOST_DIGITS = 19 };   /* of 64 bits */
    const uint8_t *at = number.begin;
    bool negative = at < number.end && *at == '-', point = false;
    uint64_t digits = 0;
    int n_digits = 0;
    if (number.end - at > MOST_DIGITS + 2) return false;
    for (at += negative; at < number.end; at++) {
        unsigned digit = (unsigned)*at - '0';
        if (*at == '.' && !point) {
            point = true;
            continue;
        }
        if (digit > 9) return false;
        digits = digits * 10 + digit;
        n_digits++;
        scale -= point;
    }
    if (n_digits == 0 || scale < 0 || n_digits + scale > MOST_DIGITS) return false;
    for (; scale > 0; scale--) digits *= 10;
    if (digits > INT64_MAX) return false;
    *value = negative ? -(int64_t)digits : (int64_t)digits;
    return true;
}

/* A decimal number, as JSON or text has it, times 10^`scale`, rounded half away from zero; false where
 * it is none or does not fit. `exact`: nothing was rounded. */
static bool decimal(struct span number, int scale, int64_t *value, bool *exact) {
    *exact = true;
    if (short_decimal(number, scale, value)) return true;
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

/* A value as it is written; its end is NULL where it does not end. */
static struct span token_at(struct json *json, const uint8_t *at) {
    const uint8_t *end = json_value(json, at);
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

/* A number for what is none: text that names a process or a thread is one, too (FNV-1a, 40 bits).
 * http://www.isthe.com/chongo/tech/comp/fnv */
static int64_t number_of_text(struct span text) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (const uint8_t *at = text.begin; at < text.end; at++) hash = (hash ^ *at) * 0x100000001b3u;
    return -1 - (int64_t)(hash >> 24);
}

/* -- events --------------------------------------------------------------------------------------- */

static bool key_is(struct span key, const char *name) {
    size_t size = strlen(name);
    return (size_t)(key.end - key.begin) == size && memcmp(key.begin, name, size) == 0;
}

static int column_of(struct span key) {
    switch (key.end - key.begin) {
    case 1: return key_is(key, "s") ? SCOPE : -1;
    case 2:
        return key_is(key, "ph")   ? PHASE
               : key_is(key, "ts") ? TS
               : key_is(key, "id") ? FLOW_ID
               : key_is(key, "bp") ? FLOW_BIND
                                   : -1;
    case 3:
        return key_is(key, "cat")   ? CATEGORY
               : key_is(key, "pid") ? PID
               : key_is(key, "tid") ? TID
               : key_is(key, "dur") ? DUR
                                    : -1;
    case 4: return key_is(key, "name") ? NAME : key_is(key, "args") ? ARGS : -1;
    default: return -1;
    }
}

/* A member of `args`: what joins events gets a column of its own. */
static const uint8_t *args_member(void *context, struct json *json, struct span key, const uint8_t *at) {
    struct reader *reader = context;
    struct span token = token_at(json, at);
    bool exact, is_old = key_is(key, "external id");   /* so Kineto wrote it until 2022 */
    int64_t value;
    int column = key_is(key, "correlation")               ? CORRELATION
                 : key_is(key, "External id") || is_old ? EXTERNAL_ID
                 : key_is(key, "device")                  ? DEVICE
                 : key_is(key, "stream")                  ? STREAM
                                                          : -1;
    if (token.end == NULL || column < 0) return token.end;
    unsigned bit = 1u << (is_old ? COLUMNS : column);
    bool is_first = !(reader->args_seen & bit) && !(is_old && is_set(reader->batch, column));
    reader->args_seen |= bit;
    if (is_first && decimal(unquoted(token), 0, &value, &exact) && exact)
        set_integer(reader->batch, column, value);
    return token.end;
}

static const uint8_t *read_args(struct reader *reader, struct json *json, const uint8_t *at) {
    size_t begin = reader->batch->heap.size;
    json_copy(json, at);
    at = *at == '{' ? json_members(json, at, args_member, reader) : json_value(json, at);
    if (at == NULL) return NULL;
    if (!json_copied(json, at)) return json_wrong(json, json_no_memory);
    set_text(reader->batch, ARGS, begin);
    return at;
}

static bool read_text(struct batch *batch, int column, struct span string) {
    struct heap *heap = &batch->heap;
    size_t begin = heap->size;
    if (!heap_reserve(heap, (size_t)(string.end - string.begin))) return false;
    heap->size += json_unescape(string, heap->bytes + begin);
    set_text(batch, column, begin);
    return true;
}

static const uint8_t *event_member(void *context, struct json *json, struct span key, const uint8_t *at) {
    struct reader *reader = context;
    struct batch *batch = reader->batch;
    uint8_t plain_key[24];   /* four letters, each an escape of six: no known key is longer */
    if (key.has_escapes && key.end - key.begin <= (ptrdiff_t)sizeof plain_key) {
        key.end = plain_key + json_unescape(key, plain_key);
        key.begin = plain_key;
    }
    int column = column_of(key);
    bool known = column >= 0 && !(reader->seen & 1u << column), reproduced = false, exact;
    int64_t value;
    reader->keys++;
    if (!known) return json_value(json, at);
    reader->seen |= 1u << column;
    if (column == ARGS && *at != 'n') {
        reader->reproduced++;
        return read_args(reader, json, at);
    }
    struct span token = token_at(json, at), bare;
    if (token.end == NULL) return NULL;
    bare = unquoted(token);
    if (columns[column].type != INTEGER) {
        reproduced = is_string(token);
        if (reproduced && !read_text(batch, column, bare)) return json_wrong(json, json_no_memory);
    } else if (column == TS || column == DUR) {
        if (decimal(bare, 3, &value, &exact)) {
            set_integer(batch, column, value);
            reproduced = exact && !is_string(token);
        }
    } else if (is_plain(bare) && decimal(bare, 0, &value, &exact)) {
        reproduced = !is_string(token);
        if (reproduced || column != FLOW_ID) set_integer(batch, column, value);
    } else if (column != FLOW_ID && *at != 'n') {
        set_integer(batch, column, number_of_text(bare));
    }
    reader->reproduced += reproduced;
    return token.end;
}

/* One event, an object that begins at `at`, as a row. */
static const uint8_t *read_event(struct batch *batch, struct json *json, const uint8_t *at, int64_t event_id) {
    struct reader reader = {.batch = batch};
    set_integer(batch, EVENT_ID, event_id);
    const uint8_t *end = json_members(json, at, event_member, &reader);
    if (end == NULL) return NULL;
    if (reader.reproduced != reader.keys || reader.keys == 0) {
        size_t begin = batch->heap.size;
        json_copy(json, at);
        if (json_value(json, at) == NULL || !json_copied(json, end)) return json_wrong(json, json_no_memory);
        set_text(batch, RAW, begin);
    }
    if (batch->heap.size > INT32_MAX) return json_wrong(json, "too large");
    batch->rows++;
    return batch_open_row(batch) ? end : json_wrong(json, json_no_memory);
}

/* -- what Python calls ---------------------------------------------------------------------------- */

enum stop { AT_END, INSIDE_EVENT, AT_BRACKET, AT_ERROR, OUT_OF_MEMORY };

/* Where reading stopped, and why. */
struct stopped {
    int64_t at;          /* behind the last event that was read, and what parts it from what follows */
    int32_t reason;      /* of enum stop */
    const char *error;   /* AT_ERROR: what is wrong with the event there */
};

/* Reads events one behind the other, as in the array `traceEvents`, from the first on, which is numbered
 * `first_id`; `out` gets them. */
void tracekit_read_events(
    const uint8_t *text, int64_t size, int64_t first_id, struct ArrowArray *out, struct stopped *stopped
) {
    struct json *json = calloc(1, sizeof *json);
    struct batch *batch = batch_new(columns, COLUMNS);
    const uint8_t *at = text, *end = text + size;
    *out = (struct ArrowArray){0};
    *stopped = (struct stopped){.reason = OUT_OF_MEMORY};
    if (json == NULL || batch == NULL || !heap_reserve(&batch->heap, (size_t)size / 2 + 1)) goto failed;
    json->end = end;
    json->heap = &batch->heap;
    for (;;) {
        while (at < end && memchr(" \n,\r\t", *at, 5)) at++;
        if (at == end || *at == ']') break;
        const uint8_t *next = *at == '{' ? read_event(batch, json, at, first_id + batch->rows)
                                         : json_wrong(json, "Not an object");
        if (next == NULL) {
            if (json->reason == json_no_memory) goto failed;
            stopped->error = json->reason;
            stopped->reason = stopped->error ? AT_ERROR : INSIDE_EVENT;
            break;
        }
        at = next;
    }
    stopped->at = at - text;
    if (at == end) stopped->reason = AT_END;
    else if (*at == ']') stopped->reason = AT_BRACKET;
    if (!batch_open_row(batch)) goto failed;   /* what it holds is of an event that is not whole */
    batch_export(batch, out);
    free(json);
    return;
failed:
    free(json);
    batch_free(batch);
}

/* The columns of what is read; 0 when done. */
int tracekit_event_schema(struct ArrowSchema *out) { return schema_export(columns, COLUMNS, out); }

void tracekit_release(struct ArrowArray *array) {
    if (array->release != NULL) array->release(array);
}
