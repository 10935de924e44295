/* Replays a recorded run: the work that host threads do, and the time of each node of the graph, given the
 * factor on each part's measured time (tracekit/replay). Times are nanoseconds; nothing is allocated here. */

#include "export.h"

#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>

/* A time before all others at which an edge may end: for edges that are ignored. */
#define BEFORE_ALL (-((int64_t)1 << 61))

/* Integers of 1 to 8 bytes. */
struct integers {
    const void *at;
    int64_t bytes;   /* of each */
};

/* The factors on the parts' measured times, by their kind. */
struct rates {
    struct integers kind;   /* the kind of each part, 0 or more */
    const double *rate;     /* the rate of each kind; NULL: all parts take their measured time */
};

/* The stretches of all threads, one after the other: where each begins, and where the last one ends. */
struct stretches {
    const int64_t *borders;
    const bool *is_blocked;   /* the thread waits: no work is done */
    int64_t count;
};

/* Edges, with those of one target adjacent, and sources before targets. Nodes: 0 the start, then the ops,
 * then others. */
struct edges {
    const int32_t *source, *target;
    struct integers op_ns, fixed_ns;
    int64_t count, ops;
    const int32_t *hosted, *since, *until;   /* edges with host work, in order, and the points around it */
    int64_t n_hosted;
    const int64_t *unknown_ns;               /* of each node */
};

/* What a replay changes. */
struct scale {
    struct rates op, fixed;
    const bool *is_dropped;    /* edges to ignore */
    const int64_t *work_ns;    /* the work that threads have done by each point */
    double unknown;            /* the factor on waits that the trace does not explain */
};

static int64_t unsigned_at(const struct integers *integers, int64_t i) {
    switch (integers->bytes) {
    case 1: return ((const uint8_t *)integers->at)[i];
    case 2: return ((const uint16_t *)integers->at)[i];
    case 4: return ((const uint32_t *)integers->at)[i];
    default: return ((const int64_t *)integers->at)[i];
    }
}

static int64_t signed_at(const struct integers *integers, int64_t i) {
    return integers->bytes == 4 ? ((const int32_t *)integers->at)[i] : ((const int64_t *)integers->at)[i];
}

/* Sums and differences of absurd times may exceed 63 bits: they wrap around. */
static int64_t plus(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }

static int64_t minus(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }

/* Doubles from here on are integers. */
#define INTEGERS 4503599627370496.0

static int64_t scaled_large(int64_t ns, double factor) {
    static const double limit = 9223372036854775808.0;
    double x = (double)ns * factor, size = x < 0 ? -x : x;
    if (factor == 1) return ns;
    if (!(size < limit)) return x < 0 ? INT64_MIN : INT64_MAX;
    if (size < INTEGERS) size = (size + INTEGERS) - INTEGERS;
    return x < 0 ? -(int64_t)size : (int64_t)size;
}

/* Rounded to nanoseconds, halves to even; times that are not scaled stay exact, however long. */
static inline int64_t scaled(int64_t ns, double factor) {
    double x = (double)ns * factor;
    /* The usual case, without a branch on the factor, which changes from part to part. */
    if (x >= 0 && x < INTEGERS && ns < (int64_t)INTEGERS) return (int64_t)((x + INTEGERS) - INTEGERS);
    return scaled_large(ns, factor);
}

static int64_t at_rate(const struct rates *rates, int64_t part, int64_t ns) {
    return rates->rate == NULL ? ns : scaled(ns, rates->rate[unsigned_at(&rates->kind, part)]);
}

/* What `n` parts take. */
TRACEKIT_EXPORT void tracekit_scaled(const struct integers *ns, const struct rates *rates, int64_t n, int64_t *out) {
    for (int64_t i = 0; i < n; i++) out[i] = at_rate(rates, i, signed_at(ns, i));
}

static int64_t worked(const struct stretches *stretches, const struct rates *rates, int64_t stretch, int64_t ns) {
    return at_rate(rates, stretch, ns) & ((int64_t)stretches->is_blocked[stretch] - 1);
}

static inline void work_until(
    struct stretches stretches, struct rates rates, const int64_t *points, struct integers stretch, int64_t n, int64_t *out
) {
    const int64_t *borders = stretches.borders;
    int64_t done = 0, next = 0;
    for (int64_t i = 0; i < stretches.count && next < n; i++) {
        done = plus(done, worked(&stretches, &rates, i, minus(borders[i + 1], borders[i])));
        for (; next < n && signed_at(&stretch, next) == i; next++)
            out[next] = minus(done, worked(&stretches, &rates, i, minus(borders[i + 1], points[next])));
    }
}

/* The work done until each of `n` points, which are in order, on any thread; `stretch` is the stretch of each
 * point. */
TRACEKIT_EXPORT void tracekit_work(
    const struct stretches *stretches, const struct rates *rates, const int64_t *points, const struct integers *stretch,
    int64_t n, int64_t *out
) {
    struct rates usual = *rates;
    struct integers narrow = *stretch;
    usual.kind.bytes = 1;
    narrow.bytes = 4;
    /* The usual widths, known at compile time: twice as fast. */
    if (rates->kind.bytes == 1 && stretch->bytes == 4 && rates->rate != NULL)
        work_until(*stretches, usual, points, narrow, n, out);
    else
        work_until(*stretches, *rates, points, *stretch, n, out);
}

/* The times of the targets of the edges from `first` until `last`: when the latest of their edges ends.
 * `hosted` is the first of them in edges->hosted. */
static void replayed(
    const struct edges *edges, const struct scale *scale, int64_t first, int64_t last, int64_t hosted, int64_t *length,
    int64_t *time
) {
    for (int64_t i = first; i < last;) {
        int32_t target = edges->target[i];
        int64_t latest = BEFORE_ALL;
        for (; i < last && edges->target[i] == target; i++) {
            int64_t op = (int64_t)edges->source[i] - 1, ns = at_rate(&scale->fixed, i, signed_at(&edges->fixed_ns, i));
            if (op >= 0 && op < edges->ops) ns = plus(ns, at_rate(&scale->op, op, signed_at(&edges->op_ns, i)));
            if (hosted < edges->n_hosted && edges->hosted[hosted] == i) {
                ns = plus(ns, minus(scale->work_ns[edges->until[hosted]], scale->work_ns[edges->since[hosted]]));
                hosted++;
            }
            length[i] = ns = scale->is_dropped[i] ? BEFORE_ALL : ns;
            ns = plus(ns, time[edges->source[i]]);
            if (ns > latest) latest = ns;
        }
        time[target] = plus(latest, scaled(edges->unknown_ns[target], scale->unknown));
    }
}

/* The time of each node. `time` is 0 for all nodes, `length` has room for all edges. */
TRACEKIT_EXPORT void tracekit_replay(
    const struct edges *edges, const struct scale *scale, int64_t *length, int64_t *time
) {
    replayed(edges, scale, 0, edges->count, 0, length, time);
}

/* One of several runs that are replayed together. */
struct rank {
    const struct edges *edges;
    const struct scale *scale;
    int64_t *length, *time;
};

/* Nodes of ranks that meet: those of meeting m are from begin[m] until begin[m + 1]. `ns` is added to a
 * node's time, or to the meeting's, to get from one to the other. */
struct nodes {
    const int64_t *begin;
    const int32_t *rank, *node;
    const int64_t *ns;
};

/* The turns of a joint replay: edges of a rank; or the meeting with the number `first` if `rank` is -1. */
struct turns {
    const int32_t *rank;
    const int64_t *first, *last, *hosted;
    int64_t count;
};

/* Replays ranks together. A meeting ends `wire_ns` after the last of its nodes in `arrive` has come; those in `leave`
 * come then. `ended` has room for the end of each meeting. */
TRACEKIT_EXPORT void tracekit_replay_ranks(
    const struct rank *ranks, const struct turns *turns, const struct nodes *arrive, const struct nodes *leave,
    const int64_t *wire_ns, int64_t *ended
) {
    for (int64_t turn = 0; turn < turns->count; turn++) {
        int64_t meeting = turns->first[turn], latest = BEFORE_ALL;
        if (turns->rank[turn] >= 0) {
            const struct rank *rank = ranks + turns->rank[turn];
            replayed(rank->edges, rank->scale, turns->first[turn], turns->last[turn], turns->hosted[turn], rank->length,
                     rank->time);
            continue;
        }
        for (int64_t i = arrive->begin[meeting]; i < arrive->begin[meeting + 1]; i++) {
            int64_t at = plus(ranks[arrive->rank[i]].time[arrive->node[i]], arrive->ns[i]);
            if (at > latest) latest = at;
        }
        ended[meeting] = latest = plus(latest, wire_ns[meeting]);
        for (int64_t i = leave->begin[meeting]; i < leave->begin[meeting + 1]; i++)
            ranks[leave->rank[i]].time[leave->node[i]] = plus(latest, leave->ns[i]);
    }
}
