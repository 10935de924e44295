/* A trace's events, from JSON text to the columns of the table `event_row` (queries/schema/tables.sql says what
 * they mean), as an Arrow record batch; their words go to labels. An event that the columns cannot hold in
 * full (an unknown or repeated key, a textual timestamp ...) keeps its text in `raw`. */

#include "links.h"
#include "members.h"
#include "perfetto_read.h"
#include "rows.h"
#include "xplane_rows.h"

/* The event that is being read. */
struct reader {
    struct batch *batch;
    struct label label;
    struct heap *unescaped;     /* of its words */
    struct links links;         /* in its arguments */
    unsigned seen;              /* which keys it has, one bit each */
    int keys, reproduced;       /* how many keys it has, and how many the columns reproduce */
};

/* -- events --------------------------------------------------------------------------------------- */

/* The column for a key's value; words are numbered after all columns; -1: neither. */
static int column_or_word(const struct span *key) {
    enum { WORD = COLUMNS };
    switch (key->end - key->begin) {
    case 1: return key_is(key, "s") ? WORD + SCOPE : -1;
    case 2:
        return key_is(key, "ph")   ? WORD + PHASE
               : key_is(key, "ts") ? TS
               : key_is(key, "id") ? FLOW_ID
               : key_is(key, "bp") ? WORD + FLOW_BIND
                                   : -1;
    case 3:
        return key_is(key, "cat")   ? WORD + CATEGORY
               : key_is(key, "pid") ? PID
               : key_is(key, "tid") ? TID
               : key_is(key, "dur") ? DUR
                                    : -1;
    case 4: return key_is(key, "name") ? WORD + NAME : key_is(key, "args") ? ARGS : -1;
    default: return -1;
    }
}

static const uint8_t *read_args(struct reader *reader, struct json *json, const uint8_t *at) {
    size_t begin = reader->batch->heap.size;
    if (*at == 'n') return json_value(json, at);   /* null is not NULL */
    json_copy(json, at);
    at = *at == '{' ? json_members(json, at, link_member, &reader->links) : json_value(json, at);
    if (at == NULL) return NULL;
    if (!json_copied(json, at)) return json_wrong(json, json_no_memory);
    set_text(reader->batch, ARGS, begin);
    reader->reproduced++;
    return at;
}

static const uint8_t *read_word(struct reader *reader, struct json *json, enum word word, const uint8_t *at) {
    if (*at != '"') return json_value(json, at);
    const uint8_t *end = json_string(json, at);
    if (end == NULL) return NULL;
    struct span string = {at + 1, end - 1, json->has_escapes};
    const uint8_t *text = string.begin;
    size_t size = (size_t)(string.end - string.begin);
    if (string.has_escapes) {
        /* Makes room for the rest of this event, so that other words keep their addresses. */
        if (!heap_reserve(reader->unescaped, (size_t)(json->end - at))) return json_wrong(json, json_no_memory);
        text = reader->unescaped->bytes + reader->unescaped->size;
        size = json_unescape(&string, reader->unescaped->bytes + reader->unescaped->size);
        reader->unescaped->size += size;
    }
    reader->label.words[word].text = text;
    reader->label.words[word].size = size;
    reader->reproduced++;
    return end;
}

static const uint8_t *read_number(struct reader *reader, struct json *json, int column, const uint8_t *at) {
    struct batch *batch = reader->batch;
    bool is_time = column == TS || column == DUR, reproduced = false, exact;
    int64_t value;
    const uint8_t *end = short_number(json, at, is_time ? 3 : 0, &value);
    if (end != NULL) {
        set_integer(batch, column, value);
        reader->reproduced++;
        return end;
    }
    struct span token = token_at(json, at);
    if (token.end == NULL) return NULL;
    struct span bare = unquoted(token);
    if (is_time) {
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

static const uint8_t *event_member(void *context, struct json *json, const struct span *key, const uint8_t *at) {
    struct reader *reader = context;
    uint8_t plain_key[24];   /* the longest known key has four letters, each as an escape of six */
    struct span plain = {.begin = plain_key};
    if (key->has_escapes && key->end - key->begin <= (ptrdiff_t)sizeof plain_key) {
        plain.end = plain_key + json_unescape(key, plain_key);
        key = &plain;
    }
    int column = column_or_word(key);
    reader->keys++;
    if (column < 0 || reader->seen & 1u << column) return json_value(json, at);
    reader->seen |= 1u << column;
    if (column >= COLUMNS) return read_word(reader, json, (enum word)(column - COLUMNS), at);
    return column == ARGS ? read_args(reader, json, at) : read_number(reader, json, column, at);
}

/* One event, an object that begins at `at`, as a row. */
static const uint8_t *read_event(
    struct batch *batch, struct labels *labels, struct json *json, const uint8_t *at, int64_t event_id
) {
    struct reader reader = {.batch = batch, .unescaped = &labels->unescaped, .links.batch = batch};
    int64_t label_id;
    labels->unescaped.size = 0;
    set_integer(batch, EVENT_ID, event_id);
    const uint8_t *end = json_members(json, at, event_member, &reader);
    if (end == NULL) return NULL;
    if (reader.reproduced != reader.keys || reader.keys == 0) {
        size_t begin = batch->heap.size;
        json_copy(json, at);
        if (json_value(json, at) == NULL) return NULL;   /* it is one level deeper here */
        if (!json_copied(json, end)) return json_wrong(json, json_no_memory);
        set_text(batch, RAW, begin);
    }
    size_t words = labels->fresh->heap.size + (size_t)(end - at);   /* at most, with this event's */
    if (batch->heap.size > INT32_MAX || words > INT32_MAX) return json_wrong(json, "too large");
    if (!label_number(labels, &reader.label, &label_id)) return json_wrong(json, json_no_memory);
    set_integer(batch, LABEL, label_id);
    return batch_close_row(batch) ? end : json_wrong(json, json_no_memory);
}

/* An event whose strings hold text that JSON does not allow: read from a copy in which it is replaced. */
static const uint8_t *read_mended(
    struct batch *batch, struct labels *labels, struct json *json, const uint8_t *at, int64_t event_id
) {
    const uint8_t *whole_end = json->end;
    labels->mended.size = 0;
    json->was_mended = false;
    json->mends = true;
    json->heap = &labels->mended;
    json_copy(json, at);
    const uint8_t *end = json_value(json, at);
    if (end != NULL && !json_copied(json, end)) end = json_wrong(json, json_no_memory);
    json->run = NULL;
    json->mends = false;
    json->heap = &batch->heap;
    if (end == NULL) return NULL;
    json->end = labels->mended.bytes + labels->mended.size;
    if (read_event(batch, labels, json, labels->mended.bytes, event_id) == NULL) end = NULL;
    json->end = whole_end;
    return end;
}

/* -- elements that are not events ----------------------------------------------------------------- */

/* Whether the text after an element continues the array. A key there means that the array's bracket is
 * missing, or that a stray one opened the element. */
static bool array_goes_on(struct json *json, const uint8_t *at) {
    if ((at = json_space(json, at)) == NULL) return false;
    if (*at != ',') return *at == ']';
    if ((at = json_space(json, at + 1)) == NULL) return false;
    if (*at != '"') return true;
    at = json_string(json, at);
    return at != NULL && (at = json_space(json, at)) != NULL && *at != ':';
}

static const uint8_t *element_end(struct json *json, const uint8_t *at) {
    json->mends = true;
    const uint8_t *end = json_value(json, at);
    if (end != NULL) {
        json->reason = "Not an object";   /* unless the text ends here */
        if (!array_goes_on(json, end)) end = NULL;
    }
    json->mends = false;
    return end;
}

/* Text that the columns lost: an event in which characters were replaced, or an element before the event. */
struct verbatim {
    int64_t begin, end, event_id, is_event, elements;
};

/* This many consecutive elements are kept separate; the following ones join the last. */
enum { MOST_ALONE = 100 };

static bool joins_last(struct heap *verbatim, int64_t end, int64_t event_id) {
    size_t count = verbatim->size / sizeof(struct verbatim);
    struct verbatim *behind = (struct verbatim *)verbatim->bytes + count;
    if (count < MOST_ALONE || behind[-MOST_ALONE].is_event || behind[-MOST_ALONE].event_id != event_id) return false;
    behind[-1].end = end;
    behind[-1].elements++;
    return true;
}

static const uint8_t *read_element(
    struct batch *batch, struct labels *labels, struct json *json, const uint8_t *text, const uint8_t *at,
    int64_t event_id, struct heap *verbatim
) {
    bool is_event = *at == '{', is_lost = !is_event;
    size_t heap_size = batch->heap.size;
    json->needs_mending = false;
    const uint8_t *end = is_event ? read_event(batch, labels, json, at, event_id) : element_end(json, at);
    if (end == NULL && json->needs_mending && is_event) {
        batch->heap.size = heap_size;
        batch_clear_row(batch);
        json->run = NULL;
        end = read_mended(batch, labels, json, at, event_id);
        is_lost = json->was_mended;
    }
    if (end == NULL) batch->heap.size = heap_size;
    if (end == NULL || !is_lost) return end;
    if (!is_event && joins_last(verbatim, end - text, event_id)) return end;
    struct verbatim lost = {at - text, end - text, event_id, is_event, 1};
    return heap_add(verbatim, &lost, sizeof lost) ? end : json_wrong(json, json_no_memory);
}

/* -- what Python calls ---------------------------------------------------------------------------- */

/* Reads consecutive events of the array `traceEvents`. The events go to `out`, whose first row has the number
 * `first_id`, behind the rows that it has; their texts to `labels`. An element that is not an event is passed over. */
TRACEKIT_EXPORT void tracekit_read_events(
    const uint8_t *text, int64_t size, int64_t first_id, struct labels *labels, struct ArrowArray *out,
    struct stopped *stopped
) {
    struct json *json = calloc(1, sizeof *json);
    struct batch *batch = out->release != NULL ? out->private_data : batch_new(columns, COLUMNS);
    struct heap verbatim = {0};
    const uint8_t *at = text, *end = text + size;
    *out = (struct ArrowArray){0};
    *stopped = (struct stopped){.reason = OUT_OF_MEMORY};
    if (json == NULL || batch == NULL || !heap_reserve(&batch->heap, (size_t)size / 2 + 1)) goto failed;
    json->end = end;
    json->heap = &batch->heap;
    for (;;) {
        while (at < end && (is_space(*at) || *at == ',')) at++;
        if (at == end || *at == ']') break;
        const uint8_t *next = read_element(batch, labels, json, text, at, first_id + batch->rows, &verbatim);
        if (next == NULL) {
            if (json->reason == json_no_memory) goto failed;
            stopped->error = json->reason;
            stopped->reason = stopped->error ? AT_ERROR : INSIDE;
            break;
        }
        at = next;
    }
    stopped->at = at - text;
    stopped->many_labels = labels_are_many(labels);
    if (at == end) stopped->reason = AT_END;
    else if (*at == ']') stopped->reason = AT_BRACKET;
    batch_clear_row(batch);   /* it has part of an incomplete event */
    batch_export(batch, out);
    stopped->bytes = verbatim.bytes;
    stopped->size = (int64_t)verbatim.size;
    free(json);
    return;
failed:
    free(verbatim.bytes);
    free(json);
    batch_free(batch);
}

/* The schema of the rows; 0 when done. */
TRACEKIT_EXPORT int tracekit_event_schema(struct ArrowSchema *out) { return schema_export(columns, COLUMNS, out); }

TRACEKIT_EXPORT void tracekit_release(struct ArrowArray *array) {
    if (array->release != NULL) array->release(array);
}
