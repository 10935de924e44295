/* Begins and ends of slices on tracks, and which end belongs to which begin. */

#ifndef TRACEKIT_MARKS_H
#define TRACEKIT_MARKS_H

#include "texts.h"

static const uint32_t NO_PAIR = UINT32_MAX;
/* Open slices of one track; later ones have no end. */
enum { MOST_OPEN = 100000 };

struct mark {
    int64_t at;
    uint32_t is_end : 1, track : 31;
    uint32_t pair;   /* of a begin: its end */
};

/* Marks in file order. A block is a series of begins, from `block` on, and the series of ends after it. */
struct marks {
    struct mark *at;
    int64_t count, capacity, block, begins, ends;
    int64_t last_begin, first_end;   /* their times */
};

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* PyTorch writes the begins of many slices, then their ends in the same order, nested or not. In a file written in
 * time order, all ends of a block come later than its begins. */
static void end_block(struct marks *marks) {
    struct mark *begin = marks->at + marks->block, *end = begin + marks->begins;
    bool are_rows = marks->begins == marks->ends && marks->last_begin > marks->first_end;
    for (int64_t i = 0; are_rows && i < marks->begins; i++)
        are_rows = begin[i].track == end[i].track && begin[i].at <= end[i].at;
    for (int64_t i = 0; are_rows && i < marks->begins; i++) {
        begin[i].pair = (uint32_t)(marks->block + marks->begins + i);
        end[i].pair = (uint32_t)(marks->block + i);
    }
    marks->block = marks->count;
    marks->begins = marks->ends = 0;
    marks->last_begin = INT64_MIN;
    marks->first_end = INT64_MAX;
}

static bool add_mark(struct marks *marks, struct kept *kept, int64_t at, uint32_t track, bool is_end) {
    if (!is_end && marks->ends > 0) end_block(marks);
    if (marks->count == NO_PAIR) return fails(kept, TOO_MUCH);
    if (!keep_item(kept, (void **)&marks->at, marks->count, &marks->capacity, sizeof *marks->at)) return false;
    marks->at[marks->count++] = (struct mark){at, is_end, track & INT32_MAX, NO_PAIR};
    if (is_end) {
        marks->ends++;
        marks->first_end = least(marks->first_end, at);
    } else {
        marks->begins++;
        marks->last_begin = most(marks->last_begin, at);
    }
    return true;
}

/* -- sorting ---------------------------------------------------------------------------------------- */

/* Whether what number `a` stands for comes before that of `b`. */
typedef bool is_before(const void *context, uint32_t a, uint32_t b);

/* Sorts numbers, of which equal ones keep their order; `spare` has the same size. */
static void sort_stable(uint32_t *order, uint32_t *spare, int64_t count, is_before *before, const void *context) {
    for (int64_t width = 1; width < count; width *= 2) {
        for (int64_t low = 0; low + width < count; low += 2 * width) {
            int64_t middle = low + width, high = least(middle + width, count), left = low, right = middle;
            if (!before(context, order[middle], order[middle - 1])) continue;   /* sorted already */
            for (int64_t to = low; to < high; to++) {
                bool is_right = left == middle || (right < high && before(context, order[right], order[left]));
                spare[to] = order[is_right ? right++ : left++];
            }
            memcpy(order + low, spare + low, (size_t)(high - low) * sizeof *order);
        }
    }
}

/* At the same instant, ends come before begins. */
static bool mark_before(const void *context, uint32_t a, uint32_t b) {
    const struct mark *left = (const struct mark *)context + a, *right = (const struct mark *)context + b;
    return left->at != right->at ? left->at < right->at : left->is_end > right->is_end;
}

/* -- pairing ---------------------------------------------------------------------------------------- */

/* Gives the begins of one track their ends, in order of time. An end belongs to the last open slice; ends without
 * an open slice belong to those that begin at their instant. */
static void pair_track(struct mark *marks, const uint32_t *order, int64_t count, uint32_t *open, uint32_t *later) {
    int64_t n_open = 0, at = 0;
    while (at < count) {
        int64_t instant = marks[order[at]].at, n_later = 0;
        for (; at < count && marks[order[at]].at == instant; at++) {
            uint32_t place = order[at];
            if (!marks[place].is_end) {
                if (n_open < MOST_OPEN) open[n_open++] = place;
            } else if (n_open > 0) marks[open[--n_open]].pair = place;
            else if (n_later < MOST_OPEN) later[n_later++] = place;
        }
        for (int64_t i = 0; i < n_later && n_open > 0; i++) marks[open[--n_open]].pair = later[i];
    }
}

/* Pairs all marks that are not in rows; false when there is no memory. */
static bool pair_marks(struct marks *marks, struct kept *kept, int64_t n_tracks) {
    end_block(marks);
    int64_t *ends = calloc((size_t)n_tracks + 1, sizeof *ends), left = 0;
    for (int64_t i = 0; i < marks->count && ends != NULL; i++)
        if (marks->at[i].pair == NO_PAIR) ends[marks->at[i].track + 1]++, left++;
    uint32_t *order = malloc((size_t)(2 * left + 2 * MOST_OPEN) * sizeof *order), *spare = order + left;
    if (ends == NULL || order == NULL) {
        free(ends);
        free(order);
        return fails(kept, NO_MEMORY);
    }
    for (int64_t track = 0; track < n_tracks; track++) ends[track + 1] += ends[track];
    /* From where each track begins to where it ends. */
    for (int64_t i = 0; i < marks->count; i++)
        if (marks->at[i].pair == NO_PAIR) order[ends[marks->at[i].track]++] = (uint32_t)i;
    for (int64_t track = 0, begin = 0; track < n_tracks; begin = ends[track++]) {
        int64_t count = ends[track] - begin;
        sort_stable(order + begin, spare, count, mark_before, marks->at);
        pair_track(marks->at, order + begin, count, spare + left, spare + left + MOST_OPEN);
    }
    free(ends);
    free(order);
    return true;
}

#endif
