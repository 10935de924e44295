/* The texts of events. Events are many, but texts are few: each distinct combination is a row of the table
 * `label` (queries/schema/tables.sql), and events have its number. */

#ifndef TRACEKIT_LABELS_H
#define TRACEKIT_LABELS_H

#include "batch.h"

enum word { PHASE, CATEGORY, NAME, FLOW_BIND, SCOPE, WORDS };

/* A label: a word's text is NULL if there is none. */
struct label {
    struct {
        const uint8_t *text;
        size_t size;
    } words[WORDS];
};

enum { LABEL_ID = WORDS, LABEL_COLUMNS };
static const struct column label_columns[LABEL_COLUMNS] = {
    {"phase", TEXT}, {"category", TEXT}, {"name", TEXT}, {"flow_bind", TEXT}, {"scope", TEXT}, {"label_id", INTEGER},
};

/* Forget known labels at this size, for traces whose names do not repeat: a label may then get several numbers. */
enum { MOST_LABELS = 1 << 16, SLOTS = 2 * MOST_LABELS, MOST_LABEL_BYTES = 8 << 20 };
/* Flush new labels at this count. */
enum { MANY_NEW_LABELS = 1 << 14, MANY_NEW_LABEL_BYTES = 4 << 20 };

struct known_label {
    uint64_t hash;   /* 0: none */
    int64_t label_id;
    size_t at;       /* in `known`: its words' sizes, then their texts */
};

struct labels {
    int64_t next_id;
    uint64_t seed;           /* random, so that nobody can make names that are slow to look up */
    int n_known;
    struct known_label *slots;
    struct heap known;
    struct batch *fresh;     /* labels not taken yet */
    struct heap unescaped;   /* words of the current event that have escapes */
    struct heap mended;      /* the current event, if its strings held text that JSON does not allow */
};

static const uint32_t no_word = UINT32_MAX;

static inline uint64_t mixed(uint64_t hash, uint64_t value) {
    unsigned __int128 product = (unsigned __int128)(hash ^ value) * 0x9e3779b97f4a7c15u;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t hash_of(const struct label *label, uint64_t hash) {
    for (int i = 0; i < WORDS; i++) {
        const uint8_t *text = label->words[i].text;
        size_t left = label->words[i].size;
        uint64_t eight;
        hash = mixed(hash, text == NULL ? no_word : left);
        for (; left >= sizeof eight; left -= sizeof eight, text += sizeof eight) {
            memcpy(&eight, text, sizeof eight);
            hash = mixed(hash, eight);
        }
        for (eight = 0; left > 0; left--) eight = eight << 8 | text[left - 1];
        hash = mixed(hash, eight);
    }
    return hash | 1;
}

static inline void sizes_of(const struct label *label, uint32_t sizes[WORDS]) {
    for (int i = 0; i < WORDS; i++)
        sizes[i] = label->words[i].text == NULL ? no_word : (uint32_t)label->words[i].size;
}

static inline bool is_same(const struct label *label, const uint32_t sizes[WORDS], const uint8_t *known) {
    if (memcmp(known, sizes, WORDS * sizeof *sizes) != 0) return false;
    known += WORDS * sizeof *sizes;
    for (int i = 0; i < WORDS; i++) {
        if (label->words[i].text == NULL) continue;
        if (memcmp(known, label->words[i].text, label->words[i].size) != 0) return false;
        known += label->words[i].size;
    }
    return true;
}

static inline void labels_forget(struct labels *labels) {
    memset(labels->slots, 0, SLOTS * sizeof *labels->slots);
    free(labels->known.bytes);
    labels->known = (struct heap){0};
    labels->n_known = 0;
}

/* Adds it as a row of new labels; false when there is no memory. */
static inline bool label_write(struct batch *fresh, const struct label *label, int64_t label_id) {
    for (int i = 0; i < WORDS; i++) {
        size_t begin = fresh->heap.size;
        if (label->words[i].text == NULL) continue;
        if (!heap_add(&fresh->heap, label->words[i].text, label->words[i].size)) return false;
        set_text(fresh, i, begin);
    }
    set_integer(fresh, LABEL_ID, label_id);
    return batch_close_row(fresh);
}

static inline bool label_keep(struct labels *labels, const struct label *label, const uint32_t sizes[WORDS]) {
    if (!heap_add(&labels->known, sizes, WORDS * sizeof *sizes)) return false;
    for (int i = 0; i < WORDS; i++)
        if (label->words[i].text != NULL && !heap_add(&labels->known, label->words[i].text, label->words[i].size))
            return false;
    return true;
}

/* The number of a label; false when there is no memory. */
static inline bool label_number(struct labels *labels, const struct label *label, int64_t *label_id) {
    uint64_t hash = hash_of(label, labels->seed);
    uint32_t sizes[WORDS];
    sizes_of(label, sizes);
    struct known_label *slot = &labels->slots[hash % SLOTS];
    while (slot->hash != 0) {
        if (slot->hash == hash && is_same(label, sizes, labels->known.bytes + slot->at)) {
            *label_id = slot->label_id;
            return true;
        }
        if (++slot == labels->slots + SLOTS) slot = labels->slots;
    }
    if (labels->n_known == MOST_LABELS || labels->known.size > MOST_LABEL_BYTES) {
        labels_forget(labels);
        slot = &labels->slots[hash % SLOTS];
    }
    size_t at = labels->known.size;
    if (!label_keep(labels, label, sizes) || !label_write(labels->fresh, label, labels->next_id)) return false;
    *slot = (struct known_label){hash, labels->next_id, at};
    labels->n_known++;
    *label_id = labels->next_id++;
    return true;
}

static inline bool labels_are_many(const struct labels *labels) {
    return labels->fresh->rows >= MANY_NEW_LABELS || labels->fresh->heap.size >= MANY_NEW_LABEL_BYTES;
}

/* -- what Python calls ---------------------------------------------------------------------------- */

TRACEKIT_EXPORT void tracekit_labels_close(struct labels *labels) {
    if (labels == NULL) return;
    batch_free(labels->fresh);
    free(labels->known.bytes);
    free(labels->unescaped.bytes);
    free(labels->mended.bytes);
    free(labels->slots);
    free(labels);
}

/* An empty set of labels; the first label will get the number `first_id`. NULL when out of memory. */
TRACEKIT_EXPORT struct labels *tracekit_labels_open(int64_t first_id, uint64_t seed) {
    struct labels *labels = calloc(1, sizeof *labels);
    if (labels == NULL) return NULL;
    labels->next_id = first_id;
    labels->seed = seed;
    labels->slots = calloc(SLOTS, sizeof *labels->slots);
    labels->fresh = batch_new(label_columns, LABEL_COLUMNS);
    if (labels->slots != NULL && labels->fresh != NULL) return labels;
    tracekit_labels_close(labels);
    return NULL;
}

/* Hands over the labels that are new since the last time; 0 when done. */
TRACEKIT_EXPORT int tracekit_labels_take(struct labels *labels, struct ArrowArray *out) {
    struct batch *next = batch_new(label_columns, LABEL_COLUMNS);
    if (next == NULL) return 1;
    batch_export(labels->fresh, out);
    labels->fresh = next;
    return 0;
}

TRACEKIT_EXPORT int tracekit_label_schema(struct ArrowSchema *out) {
    return schema_export(label_columns, LABEL_COLUMNS, out);
}

#endif
