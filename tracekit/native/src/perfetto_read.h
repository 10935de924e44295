/* What Python calls to read a Perfetto trace: packets become records, then records become rows. */

#ifndef TRACEKIT_PERFETTO_READ_H
#define TRACEKIT_PERFETTO_READ_H

#include "perfetto_rows.h"

/* Where reading packets stopped, and why; the same layout as in tracekit/trace/other/perfetto_packets.py. */
struct packets_end {
    int64_t at;            /* after the last packet that was read */
    int64_t wanted;        /* INCOMPLETE: the bytes that the next packet takes */
    int64_t begin, size;   /* COMPRESSED: packets that zlib compressed */
    const uint8_t *records;
    int64_t records_size, packets, held, odd_packets, odd_events;
    int32_t reason, failure;
};
enum { INCOMPLETE, IS_COMPRESSED, ARE_MANY, NOT_PACKETS, HAS_FAILED };

/* A packet is one field of the trace. */
enum { PACKET_TAG = TAG(1, SIZED) };

static bool read_envelope(struct text data, struct packet *packet) {
    struct cursor cursor = cursor_of(data);
    struct field field = {0};
    *packet = (struct packet){0};
    while (next_field(&cursor, &field)) {
        switch (field.tag) {
        case TAG(6, SIZED): packet->has_clocks = true; break;
        case TAG(8, VARINT): packet->timestamp = field.number; break;
        case TAG(10, VARINT): packet->sequence = (uint32_t)field.number; break;
        case TAG(11, SIZED): packet->track_event = field.text; break;
        case TAG(12, SIZED): packet->interned = field.text; break;
        case TAG(13, VARINT): packet->flags = field.number; break;
        case TAG(41, VARINT): packet->is_cleared = field.number != 0; break;
        case TAG(50, SIZED): packet->compressed = field.text; break;
        case TAG(52, SIZED): packet->counters = field.text; break;
        case TAG(53, SIZED): packet->stage = field.text; break;
        case TAG(58, VARINT): packet->clock = (uint32_t)field.number; break;
        case TAG(59, SIZED): packet->defaults = field.text; break;
        case TAG(60, SIZED): packet->descriptor = field.text; break;
        }
    }
    return !cursor.is_damaged;
}

static bool read_packet(struct perfetto *reader, struct text data, bool is_inside, struct text *compressed) {
    enum { IS_CLEARED = 1 };
    struct packet packet;
    if (!read_envelope(data, &packet)) return fails(&reader->kept, DAMAGED);
    struct sequence *sequence = sequence_of(reader, packet.sequence);
    if (sequence == NULL) return false;
    if (packet.is_cleared || packet.flags & IS_CLEARED) clear_sequence(reader, sequence);
    if (has_text(packet.interned) && !read_interned(reader, sequence, packet.interned)) return false;
    if (has_text(packet.defaults) && !read_defaults(reader, sequence, packet.defaults)) return false;
    if (has_text(packet.descriptor)) return read_track(reader, packet.descriptor);
    if (has_text(packet.track_event)) return read_track_event(reader, sequence, &packet);
    if (has_text(packet.stage) || has_text(packet.counters)) {
        if (packet.clock >= FIRST_OWN_CLOCK || packet.timestamp > INT64_MAX) reader->odd_events++;
        else
            return has_text(packet.counters) ? read_counters(reader, sequence, &packet)
                                             : read_stage(reader, sequence, &packet);
        return true;
    }
    if (has_text(packet.compressed) && !is_inside) *compressed = packet.compressed;
    else if (!has_text(packet.interned) && !packet.has_clocks) reader->odd_packets++;
    return true;
}

/* -- what Python calls ------------------------------------------------------------------------------ */

TRACEKIT_EXPORT void tracekit_perfetto_close(struct perfetto *reader) {
    if (reader == NULL) return;
    for (int64_t i = 0; i < reader->n_sequences; i++) {
        clear_sequence(reader, &reader->sequences[i]);
        map_free(&reader->sequences[i].counters, &reader->kept);
    }
    for (int64_t i = 0; i < reader->n_counter_sets; i++) texts_free(&reader->counter_sets[i].names, &reader->kept);
    map_free(&reader->sequence_places, &reader->kept);
    map_free(&reader->track_places, &reader->kept);
    args_free(&reader->args);
    void *arrays[] = {
        reader->records.bytes, reader->flows.bytes, reader->category_text.bytes, reader->category_numbers.bytes,
        reader->ends.bytes, reader->names.bytes, reader->sequences, reader->counter_sets, reader->tracks,
        reader->last_words, reader->arrows, reader->arrow_order, reader->marks.at, reader,
    };
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) free(arrays[i]);
}

/* A reader of one trace; NULL when there is no memory. `words` must outlive it. */
TRACEKIT_EXPORT struct perfetto *tracekit_perfetto_open(uint64_t seed, const struct words *words) {
    struct perfetto *reader = calloc(1, sizeof *reader);
    if (reader == NULL) return NULL;
    reader->kept.seed = seed;
    reader->words = *words;
    reader->args.json = calloc(1, sizeof *reader->args.json);
    end_block(&reader->marks);
    /* Texts that are empty have addresses, too. */
    if (reader->args.json != NULL && heap_reserve(&reader->names, 1) && heap_reserve(&reader->category_text, 1))
        return reader;
    tracekit_perfetto_close(reader);
    return NULL;
}

/* Reads whole packets from the front of a text; their records replace those of the last call. What the reader keeps
 * may grow to `most` bytes. `is_inside`: the text was compressed in a packet. */
TRACEKIT_EXPORT void tracekit_perfetto_packets(
    struct perfetto *reader, const uint8_t *text, int64_t size, int32_t is_inside, int64_t most,
    struct packets_end *out
) {
    struct cursor cursor = {text, text + size, false};
    struct text compressed = {0};
    *out = (struct packets_end){.reason = INCOMPLETE};
    reader->kept.most = most;
    reader->kept.failure = NO_FAILURE;
    reader->records.size = 0;
    while (cursor.at < cursor.end) {
        const uint8_t *begin = cursor.at;
        uint64_t tag, length;
        bool is_whole = next_varint(&cursor, &tag) && ((tag & 7) != SIZED || next_varint(&cursor, &length));
        enum { MOST_HEAD = 20 };   /* two numbers of ten bytes */
        out->at = begin - text;
        if (!is_whole && size - out->at < MOST_HEAD) break;
        if (!is_whole || (tag & 7) != SIZED || length > INT64_MAX - MOST_HEAD) {
            out->reason = NOT_PACKETS;
            break;
        }
        out->wanted = cursor.at - begin + (int64_t)length;
        if (out->wanted > size - out->at) break;
        struct text data = {cursor.at, (size_t)length};
        cursor.at += length;
        out->wanted = 0;
        out->packets++;
        if (tag == PACKET_TAG && !read_packet(reader, data, is_inside, &compressed)) out->reason = HAS_FAILED;
        else if (has_text(compressed)) out->reason = IS_COMPRESSED;
        else if (reader->records.size >= MANY_BYTES) out->reason = ARE_MANY;
        out->at = cursor.at - text;
        if (out->reason != INCOMPLETE) break;
    }
    if (has_text(compressed)) {
        out->begin = compressed.at - text;
        out->size = (int64_t)compressed.size;
    }
    out->failure = (int32_t)reader->kept.failure;
    out->records = reader->records.bytes;
    out->records_size = (int64_t)reader->records.size;
    out->held = reader->kept.held;
    out->odd_packets = reader->odd_packets;
    out->odd_events = reader->odd_events;
}

/* The tracks, and the texts of their names; returns the number of tracks. */
TRACEKIT_EXPORT int64_t tracekit_perfetto_tracks(
    const struct perfetto *reader, const struct track **tracks, const uint8_t **names, int64_t *names_size
) {
    *tracks = reader->tracks;
    *names = reader->names.bytes;
    *names_size = (int64_t)reader->names.size;
    return reader->n_tracks;
}

/* Gives a track its process, thread and name. */
TRACEKIT_EXPORT int32_t tracekit_perfetto_place(
    struct perfetto *reader, int64_t track, int64_t pid, int64_t tid, const uint8_t *name, int64_t size
) {
    struct track *placed = &reader->tracks[track];
    placed->pid = pid;
    placed->tid = tid;
    placed->shown = (int64_t)reader->names.size;
    placed->shown_size = size;
    reader->kept.failure = NO_FAILURE;
    size_t capacity = reader->names.capacity;
    if (!heap_add(&reader->names, name, (size_t)size)) return NO_MEMORY;
    keep(&reader->kept, (int64_t)(reader->names.capacity - capacity));
    return (int32_t)reader->kept.failure;
}

/* Finds the ends of slices; returns why it failed. All packets have been read. */
TRACEKIT_EXPORT int32_t tracekit_perfetto_pair(struct perfetto *reader) {
    reader->kept.failure = NO_FAILURE;
    pair_marks(&reader->marks, &reader->kept, reader->n_tracks);
    return (int32_t)reader->kept.failure;
}

/* What was written: how many bytes of records, and of text; the same layout as in
 * tracekit/trace/other/perfetto_packets.py. */
struct rows_end {
    int64_t at, text_bytes, held;
    int32_t failure, many_labels;
};

static void export_rows(struct rows_out *rows, struct ArrowArray *out, struct rows_end *end) {
    end->held = rows->reader->kept.held;
    end->many_labels = labels_are_many(rows->labels);
    end->failure = (int32_t)rows->reader->kept.failure;
    if (end->failure != NO_FAILURE) {
        batch_free(rows->batch);
        return;
    }
    end->text_bytes += (int64_t)rows->batch->heap.size;
    batch_clear_row(rows->batch);
    batch_export(rows->batch, out);
}

/* Turns records into rows, numbered from `first_id`, until the labels are many. Without records, the next arrows:
 * no row when there are none left. */
TRACEKIT_EXPORT void tracekit_perfetto_rows(
    struct perfetto *reader, const uint8_t *records, int64_t size, int64_t most, int64_t first_id,
    struct labels *labels, struct ArrowArray *out, struct rows_end *end
) {
    struct rows_out rows = {reader, batch_new(columns, COLUMNS), labels, first_id};
    struct record record;
    bool goes_on = rows.batch != NULL && heap_reserve(&rows.batch->heap, (size_t)size + 1);
    *out = (struct ArrowArray){0};
    *end = (struct rows_end){0};
    reader->kept.most = most;
    reader->kept.failure = goes_on ? NO_FAILURE : NO_MEMORY;
    while (goes_on && end->at < size && !labels_are_many(labels)) {
        memcpy(&record, records + end->at, sizeof record);
        goes_on = write_row(&rows, &record, records + end->at);
        end->at += record.size;
        end->text_bytes += record.name_size + record.category_size;
    }
    if (goes_on && size == 0 && reader->arrow_order == NULL) goes_on = sort_arrows(reader);
    while (goes_on && size == 0 && reader->next_arrow < reader->n_arrows && rows.batch->rows < MOST_ROWS)
        goes_on = write_arrow(&rows);
    export_rows(&rows, out, end);
}

#endif
