/* Damaged events, read natively under a sanitizer: `fuzz_native SEED CASES FILE`. Each text is a copy of just its
 * size, so that a byte too many is seen, and so is each string that the columns point to. */

#include "../tracekit/native/events.c"

#include <stdio.h>

static const char letters[] = "{}[]\":,\\ \n0129.-+eEnaNiIftu\x00\xff\xe2\x80\xed\xf4\xc3\xa9";

static void check(const struct ArrowArray *batch, int first, int last) {
    for (int column = first; column <= last; column++) {
        const void **buffers = batch->children[column]->buffers;
        const struct view *views = buffers[1];
        const uint8_t *heap = buffers[2];
        for (int64_t row = 0; row < batch->length; row++) {
            int64_t end = (int64_t)views[row].text.far.offset + views[row].size;
            if (views[row].size <= INLINE_BYTES) continue;
            if (end > *(const int64_t *)buffers[3] || heap[end - 1] > 0xf4) abort();
        }
    }
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
