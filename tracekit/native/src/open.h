/* The slices of a thread that have begun and not ended. A slice costs about the same however many are open,
 * nested or not: slices that have ended stay in lists until a search passes them. */

#ifndef TRACEKIT_OPEN_H
#define TRACEKIT_OPEN_H

#include "batch.h"

/* The open slices, in the order in which they began: by flag, all, and those that nest (each ends no later
 * than the slices that were open when it began, so the last of them ends first). Those that do not nest form
 * a heap. */
enum list { OPS, PYTHON, MODULES, LINES, COVERING, FLAGS, ALL = FLAGS, NESTED, OVERLAPPING, LISTS };
_Static_assert(OP_FLAG == 1 << OPS && PYTHON_FLAG == 1 << PYTHON && MODULE_FLAG == 1 << MODULES
                   && LINE_FLAG == 1 << LINES && COVERING_FLAG == 1 << COVERING, "a list for each flag");

struct slice {
    int64_t event_id, start_ns, end_ns, self_ns, activity, flags;
    int64_t parent_id, depth;                            /* when it began */
    int64_t op, outer_op, python, line, module; /* also for it or around it; the module is around it */
    int64_t label, op_label, place_label;                /* its own; the operator's and the call site's */
    int64_t serial;   /* grows from slice to slice; 0 when it has ended */
};

/* A slice by its slot, which another slice reuses when it has ended: the serial distinguishes them. */
struct ref {
    int64_t place, serial, end_ns;
};

struct refs {
    struct ref *at;
    int64_t first, count, capacity;
};

struct open {
    struct slice *slices;
    int64_t *free;                      /* free slots: `n_free` of them */
    int64_t n_free, capacity, begun;
    struct refs lists[LISTS]; /* some may have ended, except in the heap and among those that nest */
    int64_t found;                      /* the position of the slice found last */
};

static inline int64_t n_open(const struct open *open) { return open->capacity - open->n_free; }

static inline struct slice *slice_of(const struct open *open, struct ref ref) {
    struct slice *slice = &open->slices[ref.place];
    return slice->serial == ref.serial ? slice : NULL;
}

/* The slice that began last; NULL when there is none. */
static inline struct slice *innermost(struct open *open, enum list list) {
    struct refs *refs = &open->lists[list];
    for (; refs->count > refs->first; refs->count--) {
        struct slice *slice = slice_of(open, refs->at[refs->count - 1]);
        if (slice != NULL) return slice;
    }
    return NULL;
}

/* The slice that began first; NULL when there is none. */
static inline struct slice *outermost(struct open *open, enum list list) {
    struct refs *refs = &open->lists[list];
    for (; refs->first < refs->count; refs->first++) {
        struct slice *slice = slice_of(open, refs->at[refs->first]);
        if (slice != NULL) return slice;
    }
    return NULL;
}

static inline bool ends_before(struct ref one, struct ref other) {
    return one.end_ns < other.end_ns || (one.end_ns == other.end_ns && one.serial > other.serial);
}

/* The slice to end next; the innermost if several end at the same time; NULL when none is open. */
static inline struct slice *next_to_end(const struct open *open) {
    const struct refs *nested = &open->lists[NESTED], *heap = &open->lists[OVERLAPPING];
    const struct ref *next = nested->count > 0 ? &nested->at[nested->count - 1] : NULL;
    if (heap->count > 0 && (next == NULL || ends_before(heap->at[0], *next))) next = &heap->at[0];
    return next == NULL ? NULL : &open->slices[next->place];
}

/* The slice of an event; NULL when it is not open. Fast for slices that began lately, or that are near the
 * last one found. */
static struct slice *find_open(struct open *open, int64_t event_id) {
    const struct refs *all = &open->lists[ALL];
    int64_t place = open->found + 1;
    struct slice *slice = place < all->count ? slice_of(open, all->at[place]) : NULL;
    for (int64_t i = all->count; (slice == NULL || slice->event_id != event_id) && i-- > 0;)
        slice = slice_of(open, all->at[place = i]);
    if (slice == NULL || slice->event_id != event_id) return NULL;
    open->found = place;
    return slice;
}

static bool add_ref(const struct open *open, struct refs *refs, struct ref ref) {
    if (refs->count == refs->capacity) {
        int64_t still_open = 0;
        for (int64_t i = refs->first; i < refs->count; i++)
            if (slice_of(open, refs->at[i]) != NULL) refs->at[still_open++] = refs->at[i];
        refs->first = 0;
        refs->count = still_open;
        if (still_open >= refs->capacity / 2) {
            int64_t capacity = refs->capacity * 2 + 64;
            if (!grow((void **)&refs->at, refs->capacity, capacity, sizeof ref)) return false;
            refs->capacity = capacity;
        }
    }
    refs->at[refs->count++] = ref;
    return true;
}

static bool push_heap(const struct open *open, struct refs *heap, struct ref ref) {
    if (!add_ref(open, heap, ref)) return false;
    int64_t place = heap->count - 1;
    for (; place > 0 && ends_before(ref, heap->at[(place - 1) / 2]); place = (place - 1) / 2)
        heap->at[place] = heap->at[(place - 1) / 2];
    heap->at[place] = ref;
    return true;
}

static void pop_heap(struct refs *heap) {
    struct ref last = heap->at[--heap->count];
    int64_t place = 0;
    for (int64_t below; (below = 2 * place + 1) < heap->count; place = below) {
        if (below + 1 < heap->count && ends_before(heap->at[below + 1], heap->at[below])) below++;
        if (!ends_before(heap->at[below], last)) break;
        heap->at[place] = heap->at[below];
    }
    heap->at[place] = last;
}

static bool begin_open(struct open *open, struct slice slice) {
    if (open->n_free == 0) {
        int64_t used = open->capacity, capacity = used * 2 + 64;
        if (!grow((void **)&open->slices, used, capacity, sizeof slice) ||
            !grow((void **)&open->free, used, capacity, sizeof *open->free))
            return false;
        for (int64_t place = capacity; place > used;) open->free[open->n_free++] = --place;
        open->capacity = capacity;
    }
    struct ref ref = {open->free[open->n_free - 1], ++open->begun, slice.end_ns};
    const struct slice *next = next_to_end(open);
    bool is_nested = next == NULL || slice.end_ns <= next->end_ns;
    slice.serial = ref.serial;
    open->slices[ref.place] = slice;
    open->n_free--;
    for (enum list list = 0; list < FLAGS; list++)
        if (slice.flags & 1 << list && !add_ref(open, &open->lists[list], ref)) return false;
    return add_ref(open, &open->lists[ALL], ref) &&
           (is_nested ? add_ref(open, &open->lists[NESTED], ref) : push_heap(open, &open->lists[OVERLAPPING], ref));
}

/* Ends the slice that is next to end. */
static void end_next(struct open *open) {
    struct refs *nested = &open->lists[NESTED], *heap = &open->lists[OVERLAPPING];
    struct slice *next = next_to_end(open);
    if (nested->count > 0 && nested->at[nested->count - 1].serial == next->serial) nested->count--;
    else pop_heap(heap);
    next->serial = 0;
    open->free[open->n_free++] = next - open->slices;
}

static void open_free(struct open *open) {
    for (enum list list = 0; list < LISTS; list++) free(open->lists[list].at);
    free(open->slices);
    free(open->free);
}

#endif
