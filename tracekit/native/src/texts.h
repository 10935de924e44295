/* Interned texts: a hash table of numbers, texts by number, and the limit on the memory that they take. */

#ifndef TRACEKIT_TEXTS_H
#define TRACEKIT_TEXTS_H

#include "labels.h"
#include "protobuf.h"
#include "put.h"

/* Why a file cannot be read on; the same values as in tracekit/trace/other/perfetto_packets.py. */
enum failure { NO_FAILURE, DAMAGED, NO_MEMORY, TOO_MUCH, TOO_LARGE };

/* The memory that a file's reader keeps, and may keep. */
struct kept {
    int64_t held, most;
    uint64_t seed;   /* random, so that nobody can make numbers that are slow to look up */
    enum failure failure;
};

static inline bool fails(struct kept *kept, enum failure failure) {
    kept->failure = failure;
    return false;
}

static inline bool keep(struct kept *kept, int64_t bytes) {
    kept->held += bytes;
    return kept->held <= kept->most || fails(kept, TOO_MUCH);
}

/* Room for one more item of an array; the new ones are zero. */
static inline bool keep_item(struct kept *kept, void **array, int64_t count, int64_t *capacity, size_t size) {
    if (count < *capacity) return true;
    int64_t more = *capacity / 2 + 16;
    if (!keep(kept, more * (int64_t)size)) return false;
    if (!grow(array, *capacity, *capacity + more, size)) return fails(kept, NO_MEMORY);
    *capacity += more;
    return true;
}

/* -- numbers by number ------------------------------------------------------------------------------ */

struct slot {
    uint64_t key, value;   /* value 0: empty */
};

struct map {
    struct slot *slots;
    uint64_t capacity, count;   /* the capacity is a power of two */
};

static inline struct slot *map_slot(const struct map *map, uint64_t seed, uint64_t key) {
    uint64_t place = mixed(seed, key);
    for (;; place++) {
        struct slot *slot = &map->slots[place & (map->capacity - 1)];
        if (slot->value == 0 || slot->key == key) return slot;
    }
}

/* The value of a key, or 0. */
static inline uint64_t map_get(const struct map *map, const struct kept *kept, uint64_t key) {
    return map->capacity == 0 ? 0 : map_slot(map, kept->seed, key)->value;
}

static inline bool map_put(struct map *map, struct kept *kept, uint64_t key, uint64_t value) {
    if (map->count * 2 >= map->capacity) {
        struct map larger = {.capacity = map->capacity ? map->capacity * 2 : 8, .count = map->count};
        if (!keep(kept, (int64_t)((larger.capacity - map->capacity) * sizeof *map->slots))) return false;
        if ((larger.slots = calloc(larger.capacity, sizeof *map->slots)) == NULL) return fails(kept, NO_MEMORY);
        for (uint64_t i = 0; i < map->capacity; i++)
            if (map->slots[i].value) *map_slot(&larger, kept->seed, map->slots[i].key) = map->slots[i];
        free(map->slots);
        *map = larger;
    }
    struct slot *slot = map_slot(map, kept->seed, key);
    map->count += slot->value == 0;
    *slot = (struct slot){key, value};
    return true;
}

static inline void map_free(struct map *map, struct kept *kept) {
    kept->held -= (int64_t)(map->capacity * sizeof *map->slots);
    free(map->slots);
    *map = (struct map){0};
}

/* -- texts by number -------------------------------------------------------------------------------- */

struct texts {
    struct map map;     /* where each text begins in the heap, plus one */
    struct heap heap;   /* texts after their sizes */
};

static inline bool texts_get(const struct texts *texts, const struct kept *kept, uint64_t number, struct text *found) {
    uint64_t place = map_get(&texts->map, kept, number);
    uint32_t size;
    if (place == 0) return false;
    memcpy(&size, texts->heap.bytes + place - 1, sizeof size);
    *found = (struct text){texts->heap.bytes + place - 1 + sizeof size, size};
    return true;
}

/* Keeps a text, as valid UTF-8. */
static inline bool texts_put(
    struct texts *texts, struct kept *kept, struct json *json, uint64_t number, struct text text
) {
    struct text known;
    struct heap *heap = &texts->heap;
    /* Writers may repeat a text when they begin anew. */
    if (texts_get(texts, kept, number, &known) && known.size == text.size && !memcmp(known.at, text.at, text.size))
        return true;
    size_t begin = heap->size, capacity = heap->capacity;
    uint32_t size = 0;
    if (!heap_add(heap, &size, sizeof size) || !put_text(json, heap, text.at, text.size, false))
        return fails(kept, NO_MEMORY);
    size = (uint32_t)(heap->size - begin - sizeof size);
    memcpy(heap->bytes + begin, &size, sizeof size);
    return keep(kept, (int64_t)(heap->capacity - capacity)) && map_put(&texts->map, kept, number, begin + 1);
}

static inline void texts_free(struct texts *texts, struct kept *kept) {
    kept->held -= (int64_t)texts->heap.capacity;
    free(texts->heap.bytes);
    texts->heap = (struct heap){0};
    map_free(&texts->map, kept);
}

#endif
