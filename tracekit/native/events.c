/* A trace's events, from JSON text to the columns of the table `event` (queries/schema/tables.sql says what
 * they mean), as an Arrow record batch. An event that the columns cannot say in full (an unknown or
 * repeated key, a textual timestamp ...) keeps its text in `raw`. */

#include "arrow.h"
#include "json.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum integer { EVENT_ID, PID, TID, TS, DUR, CORRELATION, EXTERNAL_ID, DEVICE, STREAM, FLOW_ID, INTEGERS };
enum text { PHASE, CATEGORY, NAME, FLOW_BIND, SCOPE, ARGS, RAW, TEXTS };
enum { COLUMNS = INTEGERS + TEXTS };

static const char *const column_names[COLUMNS] = {
    "event_id", "pid", "tid", "ts_ns", "dur_ns", "correlation", "external_id", "device_id", "stream", "flow_id",
    "phase", "category", "name", "flow_bind", "scope", "args", "raw",
};

/* A string of an Arrow view column: short ones stand in it, others in the batch's heap.
 * https://arrow.apache.org/docs/format/Columnar.html#variable-size-binary-view-layout */
enum { INLINE_BYTES = 12, PREFIX_BYTES = 4 };
struct view {
    int32_t size;
    union {
        uint8_t bytes[INLINE_BYTES];
        struct {
            uint8_t prefix[PREFIX_BYTES];
            int32_t buffer, offset;
        } far;
    } text;
};

/* Columns while they are filled, and then until the last one is released. */
struct batch {
    atomic_int users;
    int64_t rows, capacity;
    int64_t *integers[INTEGERS];
    struct view *texts[TEXTS];
    uint8_t *valid[COLUMNS];
    struct heap heap;
    int64_t heap_size;
    struct ArrowArray columns[COLUMNS], *children[COLUMNS];
    const void *buffers[COLUMNS][4], *no_buffer[1];
};

/* The event that is being read. */
struct reader {
    struct batch *batch;
    unsigned seen, args_seen;   /* which keys, one bit a column */
    int keys, reproduced;       /* how many keys there are, and how many the columns reproduce */
};

/* -- columns -------------------------------------------------------------------------------------- */

static bool grow(void **array, int64_t capacity, size_t size) {
    void *grown = realloc(*array, (size_t)capacity * size);
    if (grown != NULL) *array = grown;
    return grown != NULL;
}

/* An empty row behind the last one. */
static bool open_row(struct batch *batch) {
    if (batch->rows == batch->capacity) {
        int64_t capacity = batch->capacity ? batch->capacity * 2 : 1024;
        for (int i = 0; i < INTEGERS; i++)
            if (!grow((void **)&batch->integers[i], capacity, sizeof(int64_t))) return false;
        for (int i = 0; i < TEXTS; i++)
            if (!grow((void **)&batch->texts[i], capacity, sizeof(struct view))) return false;
        for (int i = 0; i < COLUMNS; i++)
            if (!grow((void **)&batch->valid[i], capacity / 8, 1)) return false;
        batch->capacity = capacity;
    }
    int64_t row = batch->rows;
    for (int i = 0; i < INTEGERS; i++) batch->integers[i][row] = 0;
    for (int i = 0; i < TEXTS; i++) batch->texts[i][row] = (struct view){0};
    for (int i = 0; i < COLUMNS; i++) batch->valid[i][row / 8] &= (uint8_t)((1 << row % 8) - 1);
    return true;
}

static bool is_set(struct batch *batch, int column) {
    return batch->valid[column][batch->rows / 8] >> batch->rows % 8 & 1;
}

static void set_valid(struct batch *batch, int column) {
    batch->valid[column][batch->rows / 8] |= (uint8_t)(1 << batch->rows % 8);
}

static void set_integer(struct batch *batch, enum integer column, int64_t value) {
    batch->integers[column][batch->rows] = value;
    set_valid(batch, (int)column);
}

/* What stands behind the heap's end is this row's text. */
static void set_heap_text(struct batch *batch, enum text column, size_t begin) {
    struct view *view = &batch->texts[column][batch->rows];
    size_t size = batch->heap.size - begin;
    const uint8_t *text = batch->heap.bytes + begin;
    view->size = (int32_t)size;
    if (size <= INLINE_BYTES) {
        memcpy(view->text.bytes, text, size);
        batch->heap.size = begin;
    } else {
        memcpy(view->text.far.prefix, text, PREFIX_BYTES);
        view->text.far.buffer = 0;
        view->text.far.offset = (int32_t)begin;
    }
    set_valid(batch, INTEGERS + (int)column);
}

static bool set_text(struct batch *batch, enum text column, struct span string) {
    struct heap *heap = &batch->heap;
    size_t begin = heap->size;
    if (!heap_reserve(heap, (size_t)(string.end - string.begin))) return false;
    heap->size += json_unescape(string, heap->bytes + begin);
    set_heap_text(batch, column, begin);
    return true;
}

/* -- numbers -------------------------------------------------------------------------------------- */

/* A decimal number, as JSON or text has it, times 10^`scale`, rounded half away from zero; false where
 * it is none or does not fit. `exact`: nothing was rounded. */
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
    case 1: return key_is(key, "s") ? INTEGERS + SCOPE : -1;
    case 2:
        return key_is(key, "ph")   ? INTEGERS + PHASE
               : key_is(key, "ts") ? TS
               : key_is(key, "id") ? FLOW_ID
               : key_is(key, "bp") ? INTEGERS + FLOW_BIND
                                   : -1;
    case 3:
        return key_is(key, "cat")   ? INTEGERS + CATEGORY
               : key_is(key, "pid") ? PID
               : key_is(key, "tid") ? TID
               : key_is(key, "dur") ? DUR
                                    : -1;
    case 4: return key_is(key, "name") ? INTEGERS + NAME : key_is(key, "args") ? INTEGERS + ARGS : -1;
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
    unsigned bit = 1u << (is_old ? INTEGERS : column);
    bool is_first = !(reader->args_seen & bit) && !(is_old && is_set(reader->batch, column));
    reader->args_seen |= bit;
    if (is_first && decimal(unquoted(token), 0, &value, &exact) && exact)
        set_integer(reader->batch, (enum integer)column, value);
    return token.end;
}

static const uint8_t *read_args(struct reader *reader, struct json *json, const uint8_t *at) {
    size_t begin = reader->batch->heap.size;
    json_copy(json, at);
    at = *at == '{' ? json_members(json, at, args_member, reader) : json_value(json, at);
    if (at == NULL) return NULL;
    if (!json_copied(json, at)) return json_wrong(json, at, json_no_memory);
    set_heap_text(reader->batch, ARGS, begin);
    return at;
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
    if (column == INTEGERS + ARGS && *at != 'n') {
        reader->reproduced++;
        return read_args(reader, json, at);
    }
    struct span token = token_at(json, at), bare;
    if (token.end == NULL) return NULL;
    bare = unquoted(token);
    if (column >= INTEGERS) {
        reproduced = is_string(token);
        if (reproduced && !set_text(batch, (enum text)(column - INTEGERS), bare))
            return json_wrong(json, at, json_no_memory);
    } else if (column == TS || column == DUR) {
        if (decimal(bare, 3, &value, &exact)) {
            set_integer(batch, (enum integer)column, value);
            reproduced = exact && !is_string(token);
        }
    } else if (is_plain(bare) && decimal(bare, 0, &value, &exact)) {
        reproduced = !is_string(token);
        if (reproduced || column != FLOW_ID) set_integer(batch, (enum integer)column, value);
    } else if (column != FLOW_ID && *at != 'n') {
        set_integer(batch, (enum integer)column, number_of_text(bare));
    }
    reader->reproduced += reproduced;
    return token.end;
}

/* One event, an object that begins at `at`, as a row. */
static const uint8_t *read_event(struct batch *batch, struct json *json, const uint8_t *at, int64_t event_id) {
    struct reader reader = {.batch = batch};
    if (!open_row(batch)) return json_wrong(json, at, json_no_memory);
    set_integer(batch, EVENT_ID, event_id);
    const uint8_t *end = json_members(json, at, event_member, &reader);
    if (end == NULL) return NULL;
    if (reader.reproduced != reader.keys || reader.keys == 0) {
        size_t begin = batch->heap.size;
        json_copy(json, at);
        if (json_value(json, at) == NULL || !json_copied(json, end)) return json_wrong(json, at, json_no_memory);
        set_heap_text(batch, RAW, begin);
    }
    if (batch->heap.size > INT32_MAX) return json_wrong(json, at, "too large");
    batch->rows++;
    return end;
}

/* -- Arrow ---------------------------------------------------------------------------------------- */

static void free_batch(struct batch *batch) {
    for (int i = 0; i < INTEGERS; i++) free(batch->integers[i]);
    for (int i = 0; i < TEXTS; i++) free(batch->texts[i]);
    for (int i = 0; i < COLUMNS; i++) free(batch->valid[i]);
    free(batch->heap.bytes);
    free(batch);
}

static void release_array(struct ArrowArray *array) {
    struct batch *batch = array->private_data;
    for (int64_t i = 0; i < array->n_children; i++)
        if (array->children[i]->release != NULL) array->children[i]->release(array->children[i]);
    array->release = NULL;
    if (atomic_fetch_sub(&batch->users, 1) == 1) free_batch(batch);
}

/* The bits behind the last row are clear. */
static int64_t count_nulls(struct batch *batch, int column) {
    int64_t nulls = batch->rows;
    for (int64_t i = 0; i < (batch->rows + 7) / 8; i++) nulls -= __builtin_popcount(batch->valid[column][i]);
    return nulls;
}

static void export_batch(struct batch *batch, struct ArrowArray *array) {
    batch->heap_size = (int64_t)batch->heap.size;
    batch->users = COLUMNS + 1;
    for (int i = 0; i < COLUMNS; i++) {
        const void **buffers = batch->buffers[i];
        buffers[0] = batch->valid[i];
        buffers[1] = i < INTEGERS ? (void *)batch->integers[i] : (void *)batch->texts[i - INTEGERS];
        buffers[2] = batch->heap.bytes;
        buffers[3] = &batch->heap_size;
        batch->columns[i] = (struct ArrowArray){
            .length = batch->rows, .null_count = count_nulls(batch, i), .n_buffers = i < INTEGERS ? 2 : 4,
            .buffers = buffers, .release = release_array, .private_data = batch,
        };
        batch->children[i] = &batch->columns[i];
    }
    *array = (struct ArrowArray){
        .length = batch->rows, .n_buffers = 1, .buffers = batch->no_buffer, .n_children = COLUMNS,
        .children = batch->children, .release = release_array, .private_data = batch,
    };
}

/* Metadata is the number of pairs, then each key and value behind its size. */
#define JSON_TYPE_KEY "ARROW:extension:name"
#define JSON_TYPE_VALUE "arrow.json"
struct schema {
    struct ArrowSchema columns[COLUMNS], *children[COLUMNS];
    char json_type[3 * sizeof(int32_t) + sizeof JSON_TYPE_KEY + sizeof JSON_TYPE_VALUE];
};

static char *put_sized(char *into, const char *text) {
    int32_t size = (int32_t)strlen(text);
    memcpy(into, &size, sizeof size);
    memcpy(into + sizeof size, text, strlen(text));
    return into + sizeof size + size;
}

static void release_column(struct ArrowSchema *schema) { schema->release = NULL; }

static void release_schema(struct ArrowSchema *schema) {
    free(schema->private_data);
    schema->release = NULL;
}

/* The columns' names and types; 0 when done. */
int tracekit_event_schema(struct ArrowSchema *out) {
    struct schema *schema = calloc(1, sizeof *schema);
    const int32_t one = 1;
    if (schema == NULL) return 1;
    memcpy(schema->json_type, &one, sizeof one);
    put_sized(put_sized(schema->json_type + sizeof one, JSON_TYPE_KEY), JSON_TYPE_VALUE);
    for (int i = 0; i < COLUMNS; i++) {
        schema->columns[i] = (struct ArrowSchema){
            .format = i < INTEGERS ? "l" : "vu", .name = column_names[i], .flags = ARROW_FLAG_NULLABLE,
            .metadata = i >= INTEGERS + ARGS ? schema->json_type : NULL, .release = release_column,
        };
        schema->children[i] = &schema->columns[i];
    }
    *out = (struct ArrowSchema){
        .format = "+s", .name = "", .n_children = COLUMNS, .children = schema->children,
        .release = release_schema, .private_data = schema,
    };
    return 0;
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
    struct batch *batch = calloc(1, sizeof *batch);
    const uint8_t *at = text, *end = text + size;
    *out = (struct ArrowArray){0};
    *stopped = (struct stopped){.reason = OUT_OF_MEMORY};
    if (json == NULL || batch == NULL || !heap_reserve(&batch->heap, (size_t)size / 2 + 1)) goto failed;
    json->end = end;
    json->heap = &batch->heap;
    for (;;) {
        while (at < end && memchr(" \n,\r\t", *at, 5)) at++;
        if (at == end || *at == ']') break;
        size_t heap_size = batch->heap.size;
        const uint8_t *next = *at == '{' ? read_event(batch, json, at, first_id + batch->rows)
                                         : json_wrong(json, at, "Not an object");
        if (next == NULL) {
            if (json->reason == json_no_memory) goto failed;
            batch->heap.size = heap_size;
            stopped->error = json->reason;
            stopped->reason = stopped->error ? AT_ERROR : INSIDE_EVENT;
            break;
        }
        at = next;
    }
    stopped->at = at - text;
    if (at == end) stopped->reason = AT_END;
    else if (*at == ']') stopped->reason = AT_BRACKET;
    if (!open_row(batch)) goto failed;   /* so that the columns are there */
    export_batch(batch, out);
    free(json);
    return;
failed:
    free(json);
    if (batch != NULL) free_batch(batch);
}

void tracekit_release(struct ArrowArray *array) {
    if (array->release != NULL) array->release(array);
}
