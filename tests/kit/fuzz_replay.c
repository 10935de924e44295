/* The replay's loops under a sanitizer: `fuzz_replay SEED CASES`. Each array has exactly its size, so that a
 * step beyond it is detected; numbers have any size, so that a sum beyond 64 bits is detected. */

#include "../../tracekit/native/src/replay.c"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state;

static uint64_t draw(uint64_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
}

/* A time: of any size, some of them absurd. */
static int64_t any_ns(void) {
    uint64_t bits = draw(1u << 31) << 33 ^ draw(1u << 31) << 8 ^ draw(256);
    return draw(4) ? (int64_t)(bits >> (34 + draw(30))) : (int64_t)bits;
}

static double any_rate(void) {
    static const double rates[] = {0, 0.5, 1, 1, 1.0 / 3, 64, 1e6};
    return rates[draw(sizeof rates / sizeof *rates)];
}

/* The arrays of a case, which ends with all of them. */
static void *held[1 << 10];
static int n_held;

static void *array(int64_t count, size_t size) { return held[n_held++] = calloc((size_t)count + (count == 0), size); }

static void put(struct integers *integers, int64_t i, int64_t value) {
    uint8_t *at = (uint8_t *)integers->at + i * integers->bytes;
    int64_t narrow = value % 100;
    if (integers->bytes == 8) memcpy(at, &value, 8);
    else if (integers->bytes == 4) memcpy(at, &(int32_t){(int32_t)narrow}, 4);
    else if (integers->bytes == 2) memcpy(at, &(uint16_t){(uint16_t)narrow}, 2);
    else *at = (uint8_t)narrow;
}

static struct integers any_times(int64_t count) {
    struct integers integers = {NULL, draw(2) ? 4 : 8};
    integers.at = array(count, (size_t)integers.bytes);
    for (int64_t i = 0; i < count; i++) put(&integers, i, any_ns());
    return integers;
}

static struct rates any_rates(int64_t parts) {
    int64_t kinds = 1 + (int64_t)draw(4);
    double *rate = array(kinds, sizeof *rate);
    struct rates rates = {{NULL, (int64_t)1 << draw(4)}, rate};
    for (int64_t i = 0; i < kinds; i++) rate[i] = any_rate();
    rates.kind.at = array(parts, (size_t)rates.kind.bytes);
    for (int64_t i = 0; i < parts; i++) put(&rates.kind, i, (int64_t)draw((uint64_t)kinds));
    if (draw(4) == 0) rates.rate = NULL;
    return rates;
}

static void work(void) {
    int64_t count = (int64_t)draw(12), n = count == 0 ? 0 : (int64_t)draw(12), at = 0;
    int64_t *borders = array(count + 1, 8), *points = array(n, 8), *out = array(n, 8), *scaled_ns = array(count, 8);
    bool *is_blocked = array(count, 1);
    struct integers stretch = {NULL, draw(2) ? 4 : 8}, ns = any_times(count);
    struct rates rates = any_rates(count);
    stretch.at = array(n, (size_t)stretch.bytes);
    for (int64_t i = 0; i <= count; i++) borders[i] = at += 1 + (int64_t)draw(1000);
    for (int64_t i = 0; i < count; i++) is_blocked[i] = draw(2);
    for (int64_t i = 0, s = 0; i < n; i++) {
        s += (int64_t)draw((uint64_t)(count - s));
        put(&stretch, i, s);
        points[i] = borders[s];
    }
    tracekit_work(&(struct stretches){borders, is_blocked, count}, &rates, points, &stretch, n, out);
    tracekit_scaled(&ns, &rates, count, scaled_ns);
}

/* A run with edges of any length. */
struct run {
    struct edges edges;
    struct scale scale;
    int64_t nodes, *length, *time;
};

static struct run any_run(void) {
    int64_t nodes = 1 + (int64_t)draw(10), count = nodes == 1 ? 0 : (int64_t)draw(20), n_hosted = 0;
    int64_t points = 1 + (int64_t)draw(5), ops = (int64_t)draw((uint64_t)nodes);
    int32_t *source = array(count, 4), *target = array(count, 4);
    int64_t *work_ns = array(points, 8), *unknown = array(nodes, 8), *length = array(count, 8), *time = array(nodes, 8);
    bool *is_dropped = array(count, 1), *is_hosted = array(count, 1);
    for (int64_t i = 0, node = 1; i < count; i++) {
        target[i] = (int32_t)(node += (int64_t)draw((uint64_t)(nodes - node)));
        source[i] = (int32_t)draw((uint64_t)node);
        is_dropped[i] = draw(5) == 0;
        n_hosted += is_hosted[i] = draw(2);
    }
    int32_t *hosted = array(n_hosted, 4), *since = array(n_hosted, 4), *until = array(n_hosted, 4);
    for (int64_t i = 0, h = 0; i < count; i++) {
        if (!is_hosted[i]) continue;
        since[h] = (int32_t)draw((uint64_t)points);
        until[h] = (int32_t)draw((uint64_t)points);
        hosted[h++] = (int32_t)i;
    }
    for (int64_t i = 0; i < points; i++) work_ns[i] = any_ns();
    for (int64_t i = 0; i < nodes; i++) unknown[i] = any_ns();
    return (struct run){
        {source, target, any_times(count), any_times(count), count, ops, hosted, since, until, n_hosted, unknown},
        {any_rates(ops), any_rates(count), is_dropped, work_ns, any_rate()},
        nodes, length, time,
    };
}

static void replay(void) {
    struct run run = any_run();
    tracekit_replay(&run.edges, &run.scale, run.length, run.time);
}

static struct nodes any_nodes(const struct run *runs, int64_t count, int64_t meetings) {
    int64_t *begin = array(meetings + 1, 8), total;
    for (int64_t i = 0; i < meetings; i++) begin[i + 1] = begin[i] + (int64_t)draw(4);
    total = begin[meetings];
    int32_t *rank = array(total, 4), *node = array(total, 4);
    int64_t *ns = array(total, 8);
    for (int64_t i = 0; i < total; i++) {
        rank[i] = (int32_t)draw((uint64_t)count);
        node[i] = (int32_t)draw((uint64_t)runs[rank[i]].nodes);
        ns[i] = any_ns();
    }
    return (struct nodes){begin, rank, node, ns};
}

/* Runs that meet, each in two turns with a meeting before, between and after them. */
static void replay_ranks(void) {
    enum { MOST = 3 };
    struct run runs[MOST];
    struct rank ranks[MOST];
    int64_t count = 1 + (int64_t)draw(MOST), meetings = 3, n = 0;
    int32_t turn_rank[3 * MOST + 3];
    int64_t first[3 * MOST + 3], last[3 * MOST + 3], hosted[3 * MOST + 3], wire[3], ended[3];
    for (int64_t i = 0; i < count; i++) {
        runs[i] = any_run();
        ranks[i] = (struct rank){&runs[i].edges, &runs[i].scale, runs[i].length, runs[i].time};
    }
    for (int64_t m = 0; m < meetings; m++) {
        wire[m] = any_ns();
        turn_rank[n] = -1, first[n] = m, last[n] = hosted[n] = 0, n++;
        for (int64_t i = 0; i < count && m < 2; i++) {
            struct edges *edges = &runs[i].edges;
            int64_t half = edges->count / 2, h = 0;
            while (h < edges->n_hosted && edges->hosted[h] < half) h++;
            turn_rank[n] = (int32_t)i, first[n] = m ? half : 0, last[n] = m ? edges->count : half;
            hosted[n] = m ? h : 0, n++;
        }
    }
    struct nodes arrive = any_nodes(runs, count, meetings), leave = any_nodes(runs, count, meetings);
    tracekit_replay_ranks(ranks, &(struct turns){turn_rank, first, last, hosted, n}, &arrive, &leave, wire, ended);
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    state = strtoull(argv[1], NULL, 10);
    long cases = strtol(argv[2], NULL, 10);
    for (long i = 0; i < cases; i++) {
        work(), replay(), replay_ranks();
        while (n_held > 0) free(held[--n_held]);
    }
    printf("%ld\n", cases);
    return 0;
}
