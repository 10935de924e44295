/* Damaged events, read natively under a sanitizer: `fuzz_native SEED CASES FILE`. Each text is a copy of just its
 * size, so that a byte too many is seen, and so is each string that the columns point to. */

#include "../tracekit/native/src/events.c"

#include <stdio.h>

static const char letters[] = "{}[]\":,\\ \n0129.-+eEnaNiIftu\x00\xff\xe2\x80\xed\xf4\xc3\xa9";

static void check(const struct ArrowArray *batch, int first, int last) {
    for (int column = first; column <= last; column++) {
        const void **buffers = batch->children[column]->buffers;
        const struct view *views = buffers[1];
        const uint8_t *heap = buffers[2];
        for (int64_t row = 0; row < batch->length; row++) {
            int64_t end = (int64_t)views[row].text.in_heap.offset + views[row].size;
            if (views[row].size <= INLINE_BYTES) continue;
            if (end > *(const int64_t *)buffers[3] || heap[end - 1] > 0xf4) abort();
        }
    }
}

/* Members read from a damaged text are sound: read again, they are the same. */
static void check_members(const uint8_t *text, size_t size) {
    struct members first, again;
    int64_t end;
    int32_t depth;
    tracekit_read_members(text, (int64_t)size, &first);
    if (first.at < 0 || first.at > (int64_t)size) abort();
    uint8_t *copy = malloc((size_t)first.size + 2);
    copy[0] = '{';
    if (first.size > 0) memcpy(copy + 1, first.text, (size_t)first.size);
    copy[first.size + 1] = '}';
    tracekit_read_members(copy + 1, first.size + 1, &again);
    if (again.reason != AT_BRACKET || again.size != first.size) abort();
    if (first.size > 0 && memcmp(first.text, again.text, (size_t)first.size) != 0) abort();
    tracekit_find_member(copy, first.size + 2, "args", 4, &end, &depth);
    free(copy);
    tracekit_free(first.text);
    tracekit_free(again.text);
}

int main(int count, char **arguments) {
    static uint8_t events[1 << 16];
    if (count != 4) return 2;
    FILE *file = fopen(arguments[3], "rb");
    if (file == NULL) return 2;
    size_t size = fread(events, 1, sizeof events, file);
    srand((unsigned)atoi(arguments[1]));
    long rows = 0;
    struct labels *labels = tracekit_labels_open(0, (uint64_t)rand());
    for (int left = atoi(arguments[2]); left > 0; left--) {
        size_t begin = left % 3 ? (size_t)rand() % size : 0, length = (size_t)rand() % 600;
        if (begin + length > size) length = size - begin;
        uint8_t *text = malloc(length + !length);
        memcpy(text, events + begin, length);
        for (int damages = rand() % 4; damages > 0 && length > 0; damages--)
            text[(size_t)rand() % length] = (uint8_t)letters[(size_t)rand() % (sizeof letters - 1)];
        struct ArrowArray batch, said;
        struct ArrowSchema schema;
        struct stopped stopped;
        tracekit_read_events(text, (int64_t)length, 0, labels, &batch, &stopped);
        if (stopped.at < 0 || stopped.at > (int64_t)length || tracekit_event_schema(&schema) != 0) abort();
        /* From the first member of an event on. */
        if (length > 0) check_members(text + 1, length - 1);
        free(text);
        check(&batch, ARGS, RAW);
        rows += batch.length;
        tracekit_release(&batch);
        schema.release(&schema);
        if (left % 100) continue;
        if (tracekit_labels_take(labels, &said) != 0) abort();
        check(&said, PHASE, SCOPE);
        tracekit_release(&said);
    }
    tracekit_labels_close(labels);
    printf("%ld events\n", rows);
    return 0;
}
