/* Damaged XLA profiles, read natively under sanitizers: `fuzz_xplane SEED CASES PROFILE...`. Each plane is a copy of
 * exactly its size. Prints the cases that read events, and how many events these were. */

#include "../../tracekit/native/src/events.c"

#include "fuzz_checks.h"

static const uint8_t damages[][12] = {
    "\xff\xff\xff\xff\xff\xff\xff\xff\xff\1", "\x80\x80\x80\x80\x08", "\x0b\x0c", "\x22\0\x22\0\x22\0", "\x1a\4\x22\2\x08\1",
    "\x1a\2\x22\0", "\x2a\0\x2a\0", "\x12\3\xff\xed\xa0", "\x22\5\x08\1\x12\1\x12", "\x38\1\x38\2", "\x10\xff\xff\xff\x7f",
    "\0\0\0\0\0\0\0\0",
};
enum { DAMAGES = sizeof damages / sizeof *damages, MOST_BYTES_KEPT = 1 << 24 };

static void damage_bytes(uint8_t *text, size_t length) {
    for (int left = rand() % 5; left > 0 && length > 0; left--) {
        size_t at = (size_t)rand() % length, room = length - at, count = 1 + (size_t)rand() % 11;
        if (rand() % 2) text[at] ^= (uint8_t)(1 << rand() % 8);
        else memcpy(text + at, damages[rand() % DAMAGES], count < room ? count : room);
    }
}

static long read_rows_of(struct plane *plane, struct labels *labels) {
    struct rows_end end;
    long rows = 0;
    for (;;) {
        struct ArrowArray batch = {0};
        tracekit_plane_rows(plane, MOST_BYTES_KEPT, rows, labels, &batch, &end);
        if (end.failure != NO_FAILURE) return rows;
        check(&batch, ARGS, RAW);
        check_json(&batch, ARGS);
        rows += batch.length;
        bool is_done = batch.length == 0;
        tracekit_release(&batch);
        if (is_done) return rows;
    }
}

static long read_copy(struct plane *plane, struct text data, struct labels *labels) {
    struct plane_head head;
    int64_t events, rounded;
    long rows = 0;
    size_t size = rand() % 4 ? data.size : (size_t)rand() % (data.size + 1);
    uint8_t *copy = malloc(size + 1);
    memcpy(copy, data.at, size);
    damage_bytes(copy, size);
    tracekit_plane_read(plane, copy, (int64_t)size, MOST_BYTES_KEPT, &head);
    if (head.failure == NO_FAILURE) {
        for (int64_t kind = 0; kind < head.n_kinds; kind++)
            for (int where = 0; where < LINE_KINDS; where++)
                tracekit_plane_words(plane, kind, where, "kernel", 6, "name of it", 10, where == ON_HOST);
        for (int64_t line = 0; line < head.n_lines; line++)
            tracekit_plane_line(plane, line, 1, line, rand() % LINE_KINDS);
        tracekit_plane_count(plane, &events, &rounded);
        rows = read_rows_of(plane, labels);
        if (rows > events) abort();
    }
    free(copy);
    return rows;
}

int main(int n_arguments, char **arguments) {
    if (n_arguments < 4) return 2;
    srand((unsigned)atoi(arguments[1]));
    long rows = 0, reading = 0;
    struct labels *labels = tracekit_labels_open(0, (uint64_t)rand());
    for (int left = atoi(arguments[2]); left > 0; left--) {
        size_t size;
        uint8_t *profile = whole_file(arguments[3 + left % (n_arguments - 3)], &size);
        struct plane *plane = tracekit_plane_open((uint64_t)rand());
        struct cursor cursor = cursor_of((struct text){profile, size});
        struct field field = {0};
        long found = 0;
        while (next_field(&cursor, &field))
            if (field.tag == TAG(1, SIZED)) found += read_copy(plane, field.text, labels);
        tracekit_plane_close(plane);
        free(profile);
        rows += found;
        reading += found > 0;
        struct ArrowArray said;
        if (left % 100) continue;
        if (tracekit_labels_take(labels, &said) != 0) abort();
        check(&said, PHASE, SCOPE);
        tracekit_release(&said);
    }
    tracekit_labels_close(labels);
    printf("%ld %ld\n", reading, rows);
    return 0;
}
