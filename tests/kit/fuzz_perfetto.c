/* Damaged Perfetto traces, read natively under sanitizers: `fuzz_perfetto SEED CASES TRACE...`. Each text is a copy of
 * exactly its size, so that reading one byte too many is detected. Prints the cases that read events, and how many
 * events these were. */

#include "../../tracekit/native/src/events.c"

#include "fuzz_checks.h"

#include <stdio.h>

static const uint8_t damages[][12] = {
    "\xff\xff\xff\xff\xff\xff\xff\xff\xff\1", "\x80\x80\x80\x80\x08", "\x0b\x0c", "\x22\0\x22\0\x22\0", "\x62\4\x12\2\x08\1",
    "\x5a\2\x22\0", "\x0a\0\x0a\0", "\x52\3\xff\xed\xa0", "\x5a\6\x5a\4\x5a\2\x5a", "\x4a\3[1,", "\x48\1\x48\2", "\x8a\1\2x\x9c",
    "\xaa\3\4\x0a\2\x08\1", "\x82\3\2\x12\0", "\x1a\3\xff\xff\x7f", "\0\0\0\0\0\0\0\0",
};
enum { DAMAGES = sizeof damages / sizeof *damages, MOST_BYTES_KEPT = 1 << 24 };

static uint8_t *damaged(const uint8_t *trace, size_t size, size_t *length) {
    *length = rand() % 4 ? size : (size_t)rand() % size + 1;
    uint8_t *text = malloc(*length);
    memcpy(text, trace, *length);
    for (int left = rand() % 6; left > 0; left--) {
        size_t at = (size_t)rand() % *length, room = *length - at;
        const uint8_t *odd = damages[rand() % DAMAGES];
        size_t count = 1 + (size_t)rand() % 11;
        if (rand() % 2) text[at] ^= (uint8_t)(1 << rand() % 8);
        else memcpy(text + at, odd, count < room ? count : room);
    }
    return text;
}

/* Reads records as rows, in copies of their size; returns the number of rows. */
static long read_rows(struct perfetto *reader, const struct heap *records, struct labels *labels) {
    size_t at = 0;
    long rows = 0;
    bool has_arrows = false;
    while (!has_arrows) {
        size_t size = records->size - at;
        uint8_t *copy = malloc(size + 1);
        if (size > 0) memcpy(copy, records->bytes + at, size);
        struct ArrowArray batch = {0};
        struct rows_end end;
        tracekit_perfetto_rows(reader, copy, (int64_t)size, MOST_BYTES_KEPT, rows, labels, &batch, &end);
        free(copy);
        if (end.failure != NO_FAILURE) return rows;
        check(&batch, ARGS, RAW);
        check_json(&batch, ARGS);
        at += (size_t)end.at;
        rows += batch.length;
        has_arrows = size == 0 && batch.length == 0;
        if (size > 0 && batch.length == 0) abort();
        tracekit_release(&batch);
    }
    return rows;
}

static long read_trace(const uint8_t *text, size_t length, struct labels *labels, const struct words *words) {
    struct perfetto *reader = tracekit_perfetto_open((uint64_t)rand(), words);
    struct heap records = {0};
    struct packets_end end;
    size_t at = 0;
    do {
        /* As from a file: the rest that is there. */
        size_t size = length - at;
        uint8_t *rest = malloc(size + 1);
        memcpy(rest, text + at, size);
        tracekit_perfetto_packets(reader, rest, (int64_t)size, rand() % 2, MOST_BYTES_KEPT, &end);
        if (end.at < 0 || end.at > (int64_t)size || end.begin + end.size > (int64_t)size) abort();
        if (end.records_size > 0) heap_add(&records, end.records, (size_t)end.records_size);
        free(rest);
        at += (size_t)end.at;
    } while (end.reason == IS_COMPRESSED || end.reason == ARE_MANY);
    const struct track *tracks;
    const uint8_t *names;
    int64_t names_size, n_tracks = tracekit_perfetto_tracks(reader, &tracks, &names, &names_size);
    for (int64_t track = 0; track < n_tracks; track++) {
        for (int i = 0; i < 3; i++)
            if (tracks[track].names[i][0] + tracks[track].names[i][1] > names_size) abort();
        tracekit_perfetto_place(reader, track, 1, track, (const uint8_t *)"Overhead", track % 2 ? 8 : 3);
        tracekit_perfetto_tracks(reader, &tracks, &names, &names_size);
    }
    long rows = tracekit_perfetto_pair(reader) == NO_FAILURE ? read_rows(reader, &records, labels) : 0;
    free(records.bytes);
    tracekit_perfetto_close(reader);
    return rows;
}

int main(int n_arguments, char **arguments) {
    static const char *const renamed_words[] = {"corr_id", "correlation", "device id", "device", "", ""};
    static const struct words words = {renamed_words, renamed_words, renamed_words, renamed_words};
    if (n_arguments < 4) return 2;
    srand((unsigned)atoi(arguments[1]));
    long rows = 0, reading = 0;
    int n_files = n_arguments - 3;
    struct labels *labels = tracekit_labels_open(0, (uint64_t)rand());
    for (int left = atoi(arguments[2]); left > 0; left--) {
        size_t size, length;
        uint8_t *trace = whole_file(arguments[3 + left % n_files], &size), *text = damaged(trace, size, &length);
        long found = read_trace(text, length, labels, &words);
        free(trace);
        free(text);
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
