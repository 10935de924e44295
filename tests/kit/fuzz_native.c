/* Damaged events, read natively under sanitizers: `fuzz_native SEED CASES TRACE`. Each text begins at a whole
 * event of the trace and is a copy of exactly its size, so that reading one byte too many is detected. Prints
 * the cases that read events, and how many events these were. */

#include "../../tracekit/native/src/events.c"

#include "fuzz_checks.h"

#include <stdio.h>

static const char *damages[] = {
    "{", "}", "[", "]", "\"", ":", ",", "\\", " ", "\n", "0", "1", ".", "-", "+", "e", "n", "t", "\xff", "\xe2\x80", "\xed",
    "\xf4", "\xc3\xa9", "\x1f", "null,", "-1.5,", "\"a\",", "[{}],", "\\ud800", "\\udc00\\ud83d", "\\u0041", "NaN", "]}",
};
enum { DAMAGES = sizeof damages / sizeof *damages, MOST_EVENTS = 1 << 14 };

static const uint8_t *begins[MOST_EVENTS + 1];

/* Where the events of a trace begin, and then the trace's end; returns their number. */
static int find_events(const uint8_t *trace, size_t size) {
    static struct json json;
    struct stopped head;
    int count = 0;
    json.end = trace + size;
    const uint8_t *at = json_space(&json, trace);
    if (at == NULL) exit(2);
    if (*at == '{') {
        tracekit_read_members(at + 1, json.end - at - 1, &head);
        tracekit_free(head.bytes);
        if (head.reason != AT_EVENTS) exit(2);
        at += 1 + head.at;
    }
    while ((at = json_space(&json, at + 1)) != NULL && *at == '{' && count < MOST_EVENTS) {
        begins[count++] = at;
        if ((at = json_value(&json, at)) == NULL || (at = json_space(&json, at)) == NULL) exit(2);
        begins[count] = at;
    }
    return count;
}

/* The text that rows do not hold in full consists of whole elements, in order. */
static void check_verbatim(const struct stopped *stopped, const uint8_t *text, int64_t rows) {
    const struct verbatim *lost = (const struct verbatim *)stopped->bytes;
    int64_t end = 0, event_id = 0;
    for (int64_t left = stopped->size / (int64_t)sizeof *lost; left > 0; left--, lost++) {
        if (lost->begin < end || lost->end <= lost->begin || lost->end > stopped->at) abort();
        if (lost->event_id < event_id || lost->event_id + lost->is_event > rows) abort();
        if ((text[lost->begin] == '{') != lost->is_event) abort();
        end = lost->end;
        event_id = lost->event_id;
    }
}

/* Members read from a damaged text are valid: read again, they are the same. */
static void check_members(const uint8_t *text, size_t size) {
    struct stopped first, again;
    int64_t end;
    int32_t depth;
    tracekit_read_members(text, (int64_t)size, &first);
    if (first.at < 0 || first.at > (int64_t)size) abort();
    uint8_t *copy = malloc((size_t)first.size + 2);
    copy[0] = '{';
    if (first.size > 0) memcpy(copy + 1, first.bytes, (size_t)first.size);
    copy[first.size + 1] = '}';
    tracekit_read_members(copy + 1, first.size + 1, &again);
    if (again.reason != AT_BRACKET || again.size != first.size) abort();
    if (first.size > 0 && memcmp(first.bytes, again.bytes, (size_t)first.size) != 0) abort();
    tracekit_find_member(copy, first.size + 2, "args", 4, &end, &depth);
    free(copy);
    tracekit_free(first.bytes);
    tracekit_free(again.bytes);
}

/* A copy of some events in a row, damaged and cut or not; it ends before the next event. */
static uint8_t *some_events(int count, size_t *length) {
    int first = rand() % count, last = first + 1 + rand() % 4;
    const uint8_t *begin = begins[first], *end = begins[last < count ? last : count];
    *length = (size_t)(end - begin);
    if (rand() % 8 == 0) *length -= (size_t)rand() % *length;
    uint8_t *text = malloc(*length);
    memcpy(text, begin, *length);
    for (int left = rand() % 3; left > 0; left--) {
        const char *damage = damages[rand() % DAMAGES];
        size_t size = strlen(damage), at = (size_t)rand() % *length;
        memcpy(text + at, damage, size < *length - at ? size : *length - at);
    }
    return text;
}

int main(int n_arguments, char **arguments) {
    if (n_arguments != 4) return 2;
    size_t size;
    uint8_t *trace = whole_file(arguments[3], &size);
    int count = find_events(trace, size);
    srand((unsigned)atoi(arguments[1]));
    long rows = 0, reading = 0;
    struct labels *labels = tracekit_labels_open(0, (uint64_t)rand());
    for (int left = atoi(arguments[2]); left > 0; left--) {
        size_t length;
        uint8_t *text = some_events(count, &length);
        struct ArrowArray batch = {0}, said;
        struct ArrowSchema schema;
        struct stopped stopped;
        tracekit_read_events(text, (int64_t)length, 0, labels, &batch, &stopped);
        if (stopped.at < 0 || stopped.at > (int64_t)length || tracekit_event_schema(&schema) != 0) abort();
        check_verbatim(&stopped, text, batch.length);
        tracekit_free(stopped.bytes);
        /* From the first member of an event on. */
        check_members(text + 1, length - 1);
        free(text);
        check(&batch, ARGS, RAW);
        rows += batch.length;
        reading += batch.length > 0;
        tracekit_release(&batch);
        schema.release(&schema);
        if (left % 100) continue;
        if (tracekit_labels_take(labels, &said) != 0) abort();
        check(&said, PHASE, SCOPE);
        tracekit_release(&said);
    }
    tracekit_labels_close(labels);
    free(trace);
    printf("%ld %ld\n", reading, rows);
    return 0;
}
