/* Host slices, in the order in which they begin -> the tree that they form, the time of each thread cut
 * wherever one begins or ends, and what a thread did while a device waited for it (input:
 * queries/schema/host_order.sql; output: write_*.sql in that folder). The walk takes one pass. The innermost
 * slice is the open slice that began last. Slices may overlap without nesting (clocks are rounded; a range is
 * opened in one call and closed in another): each counts as inside the slices that were open when it began,
 * and keeps its recorded duration. */

#include "open.h"

/* The input columns, all without NULL, sorted by thread, start, longest first, and rank. Each thread begins with a
 * row that spans all of its time and has no event. Only rows of slices have a label. A call that waits for
 * its copy has one more row for each wait, while its slice is open, which gives the activity. A device's wait
 * has an index as its id. */
enum { IN_THREAD, IN_START, IN_END, IN_RANKED, IN_LABEL };   /* the first has 32 bits, the others 64 */
enum { NONE = -1 };

enum { SEGMENT_THREAD, SEGMENT, SEGMENT_START, SEGMENT_END, SEGMENT_EVENT, SEGMENT_ACTIVITY, SEGMENT_COLUMNS };
static const struct column segment_columns[SEGMENT_COLUMNS] = {
    {"thread", INTEGER}, {"segment", INTEGER}, {"start_ns", INTEGER}, {"end_ns", INTEGER}, {"event_id", INTEGER},
    {"activity_code", INTEGER},
};

enum {
    SLICE_THREAD, SLICE_EVENT, SLICE_DEPTH, SLICE_PARENT, SLICE_SELF,
    SLICE_OP, SLICE_OUTER_OP, SLICE_PYTHON, SLICE_MODULE, SLICE_LINE, SLICE_OP_LABEL, SLICE_PLACE_LABEL, SLICE_COLUMNS
};
static const struct column slice_columns[SLICE_COLUMNS] = {
    {"thread", INTEGER}, {"event_id", INTEGER}, {"depth", INTEGER}, {"parent_id", INTEGER}, {"self_ns", INTEGER},
    {"cpu_op_id", INTEGER}, {"outer_op_id", INTEGER}, {"python_id", INTEGER}, {"module_id", INTEGER},
    {"line_id", INTEGER}, {"op_label", INTEGER}, {"place_label", INTEGER},
};

enum { WAIT_PLACE, WAIT_START, WAIT_END, WAIT_EVENT, WAIT_ACTIVITY, WAIT_COLUMNS };
static const struct column wait_columns[WAIT_COLUMNS] = {
    {"place", INTEGER}, {"start_ns", INTEGER}, {"end_ns", INTEGER}, {"event_id", INTEGER}, {"activity_code", INTEGER},
};

/* A device's wait for a launch by the thread. */
struct device_wait {
    int64_t place, start_ns, end_ns;
};

struct walk {
    struct ArrowArrayStream input;
    struct ArrowArray rows;     /* the current batch of the input; `row` is the next row */
    int64_t row;
    struct slice around;        /* spans the thread's time; has no event */
    struct open open;
    struct device_wait *waits;  /* at most one per device */
    int64_t n_waits, wait_capacity;
    int64_t thread, at_ns;      /* where the walk is */
    bool in_thread;
    int64_t segment;            /* the next segment's number */
    struct batch *segments, *slices, *waited;
    bool is_done;
};

static int64_t input(const struct walk *walk, int column) {
    const struct ArrowArray *array = walk->rows.children[column];
    int64_t place = array->offset + walk->rows.offset + walk->row;
    return column == IN_THREAD ? ((const int32_t *)array->buffers[1])[place] : ((const int64_t *)array->buffers[1])[place];
}

static void set_known(struct batch *batch, int column, int64_t id) {
    if (id != NONE) set_integer(batch, column, id);
}

/* Writes, for each wait, the part up to `at_ns` with the innermost slice and the activity. */
static bool go_on_waiting(struct walk *walk, int64_t at_ns, int64_t event_id, int64_t activity) {
    struct batch *out = walk->waited;
    int64_t left = 0;
    for (int64_t i = 0; i < walk->n_waits; i++) {
        struct device_wait wait = walk->waits[i];
        int64_t start_ns = wait.start_ns > walk->at_ns ? wait.start_ns : walk->at_ns;
        int64_t end_ns = wait.end_ns < at_ns ? wait.end_ns : at_ns;
        if (wait.end_ns > at_ns) walk->waits[left++] = wait;
        if (start_ns >= end_ns) continue;
        set_integer(out, WAIT_PLACE, wait.place);
        set_integer(out, WAIT_START, start_ns);
        set_integer(out, WAIT_END, end_ns);
        set_known(out, WAIT_EVENT, event_id);
        set_integer(out, WAIT_ACTIVITY, activity);
        if (!batch_close_row(out)) return false;
    }
    walk->n_waits = left;
    return true;
}

/* Ends the current segment at `at_ns`. Its event is the innermost open slice. Its activity is that of the
 * outermost open slice that covers everything inside it (input, compilation), else that of the innermost
 * slice. */
static bool go_to(struct walk *walk, int64_t at_ns) {
    if (at_ns <= walk->at_ns) return true;
    struct slice *covering = outermost(&walk->open, COVERING), *own = innermost(&walk->open, ALL);
    struct batch *out = walk->segments;
    if (own == NULL) own = &walk->around;
    int64_t activity = (covering != NULL ? covering : own)->activity;
    if (!go_on_waiting(walk, at_ns, own->event_id, activity)) return false;
    /* The difference of absurd times may exceed 63 bits: it wraps around. */
    own->self_ns = (int64_t)((uint64_t)own->self_ns + (uint64_t)at_ns - (uint64_t)walk->at_ns);
    set_integer(out, SEGMENT_THREAD, walk->thread);
    set_integer(out, SEGMENT, walk->segment++);
    set_integer(out, SEGMENT_START, walk->at_ns);
    set_integer(out, SEGMENT_END, at_ns);
    set_known(out, SEGMENT_EVENT, own->event_id);
    set_integer(out, SEGMENT_ACTIVITY, activity);
    walk->at_ns = at_ns;
    return batch_close_row(out);
}

/* Advances to the end of the slice that ends next, and writes and closes it. */
static bool go_to_end_of(struct walk *walk, const struct slice *slice) {
    struct batch *out = walk->slices;
    if (!go_to(walk, slice->end_ns)) return false;
    set_integer(out, SLICE_THREAD, walk->thread);
    set_integer(out, SLICE_EVENT, slice->event_id);
    set_integer(out, SLICE_DEPTH, slice->depth);
    set_known(out, SLICE_PARENT, slice->parent_id);
    set_integer(out, SLICE_SELF, slice->self_ns);
    set_known(out, SLICE_OP, slice->op);
    set_known(out, SLICE_OUTER_OP, slice->outer_op);
    set_known(out, SLICE_PYTHON, slice->python);
    set_known(out, SLICE_MODULE, slice->module);
    set_known(out, SLICE_LINE, slice->line);
    set_known(out, SLICE_OP_LABEL, slice->op_label);
    set_known(out, SLICE_PLACE_LABEL, slice->place_label);
    if (!batch_close_row(out)) return false;
    end_next(&walk->open);
    return true;
}

/* Ends the slices that end by `at_ns`, in order of time, except those of zero length at `at_ns`. */
static bool end_until(struct walk *walk, int64_t at_ns) {
    const struct slice *slice;
    while ((slice = next_to_end(&walk->open)) != NULL) {
        if (slice->end_ns > at_ns || (slice->end_ns == at_ns && slice->start_ns == at_ns)) break;
        if (!go_to_end_of(walk, slice)) return false;
    }
    return true;
}

/* `activity` replaces the activity that the slice's name gives. */
static void mark_copy(struct walk *walk, int64_t event_id, int64_t activity) {
    struct slice *slice = find_open(&walk->open, event_id);
    if (slice != NULL && !(slice->flags & COVERING_FLAG)) slice->activity = activity;
}

static bool begin_wait(struct walk *walk, struct device_wait wait) {
    if (walk->n_waits == walk->wait_capacity) {
        int64_t used = walk->wait_capacity;
        walk->wait_capacity = used * 2 + 8;
        if (!grow((void **)&walk->waits, used, walk->wait_capacity, sizeof wait)) return false;
    }
    walk->waits[walk->n_waits++] = wait;
    return true;
}

static bool end_thread(struct walk *walk) {
    const struct slice *slice;
    while ((slice = next_to_end(&walk->open)) != NULL)
        if (!go_to_end_of(walk, slice)) return false;
    if (walk->in_thread && !go_to(walk, walk->around.end_ns)) return false;
    walk->n_waits = 0;
    return true;
}

static int64_t id_of(const struct slice *slice) { return slice == NULL ? NONE : slice->event_id; }

static const struct slice *itself_or(const struct slice *slice, int64_t flag, const struct slice *around) {
    return slice->flags & flag ? slice : around;
}

static int64_t label_of(const struct slice *slice) { return slice == NULL ? NONE : slice->label; }

static bool begin_slice(struct walk *walk, struct slice slice) {
    struct open *open = &walk->open;
    if (!end_until(walk, slice.start_ns) || !go_to(walk, slice.start_ns)) return false;
    const struct slice *op = itself_or(&slice, OP_FLAG, innermost(open, OPS)), *outer_op = outermost(open, OPS);
    const struct slice *line = itself_or(&slice, LINE_FLAG, innermost(open, LINES)), *module = innermost(open, MODULES);
    if (outer_op == NULL) outer_op = op;
    slice.depth = n_open(open) + 1;
    slice.parent_id = id_of(innermost(open, ALL));
    slice.op = id_of(op);
    slice.outer_op = id_of(outer_op);
    slice.python = id_of(itself_or(&slice, PYTHON_FLAG, innermost(open, PYTHON)));
    slice.module = id_of(module);
    slice.line = id_of(line);
    slice.op_label = label_of(op);
    slice.place_label = label_of(line != NULL ? line : module != NULL ? module : outer_op);
    return begin_open(open, slice);
}

static int64_t bits(int64_t value, int from, int to) {
    return (int64_t)((uint64_t)value >> from & (((uint64_t)1 << (to - from)) - 1));
}

/* Takes the next row of the input. */
static bool step(struct walk *walk) {
    int64_t start_ns = input(walk, IN_START), end_ns = input(walk, IN_END);
    int64_t thread = input(walk, IN_THREAD), ranked = input(walk, IN_RANKED), kind = ranked >> KIND_SHIFT;
    int64_t id = bits(ranked, ID_SHIFT, KIND_SHIFT);
    struct slice slice = {
        .event_id = id, .start_ns = start_ns, .end_ns = end_ns,
        .activity = bits(ranked, ACTIVITY_SHIFT, ID_SHIFT), .flags = bits(ranked, 0, ACTIVITY_SHIFT),
        .label = input(walk, IN_LABEL),
    };
    walk->row++;
    if (kind == WAIT_KIND) return begin_wait(walk, (struct device_wait){id, start_ns, end_ns});
    if (kind == COPY_KIND) {
        mark_copy(walk, id, slice.activity);
        return true;
    }
    /* Rows before the first thread's row are ignored. */
    if (kind != THREAD_KIND) return !walk->in_thread || begin_slice(walk, slice);
    if (!end_thread(walk)) return false;
    slice.event_id = NONE;
    walk->around = slice;
    walk->in_thread = true;
    walk->thread = thread;
    walk->at_ns = start_ns;
    return true;
}

/* -- what Python calls ---------------------------------------------------------------------------- */

TRACEKIT_EXPORT int tracekit_segment_schema(struct ArrowSchema *out) {
    return schema_export(segment_columns, SEGMENT_COLUMNS, out);
}

TRACEKIT_EXPORT int tracekit_slice_schema(struct ArrowSchema *out) {
    return schema_export(slice_columns, SLICE_COLUMNS, out);
}

TRACEKIT_EXPORT int tracekit_wait_schema(struct ArrowSchema *out) {
    return schema_export(wait_columns, WAIT_COLUMNS, out);
}

TRACEKIT_EXPORT void tracekit_walk_close(struct walk *walk) {
    if (walk == NULL) return;
    if (walk->rows.release != NULL) walk->rows.release(&walk->rows);
    if (walk->input.release != NULL) walk->input.release(&walk->input);
    batch_free(walk->segments);
    batch_free(walk->slices);
    batch_free(walk->waited);
    open_free(&walk->open);
    free(walk->waits);
    free(walk);
}

/* Takes ownership of the stream; NULL when out of memory. */
TRACEKIT_EXPORT struct walk *tracekit_walk_open(struct ArrowArrayStream *input) {
    struct walk *walk = calloc(1, sizeof *walk);
    if (walk == NULL) return NULL;
    walk->input = *input;
    input->release = NULL;
    return walk;
}

/* Walks until one kind of output has `rows` rows or the input ends; returns the kind of the rows in `out`. When the
 * input fails, tracekit_walk_error gives the stream's error. */
TRACEKIT_EXPORT int tracekit_walk_next(struct walk *walk, int64_t rows, struct ArrowArray *out) {
    struct batch **batches[] = {&walk->segments, &walk->slices, &walk->waited};
    int fullest = SEGMENTS_WALK_OUTPUT;
    *out = (struct ArrowArray){0};
    if (walk->segments == NULL) walk->segments = batch_new(segment_columns, SEGMENT_COLUMNS);
    if (walk->slices == NULL) walk->slices = batch_new(slice_columns, SLICE_COLUMNS);
    if (walk->waited == NULL) walk->waited = batch_new(wait_columns, WAIT_COLUMNS);
    for (int kind = SEGMENTS_WALK_OUTPUT; kind <= WAITS_WALK_OUTPUT; kind++)
        if (*batches[kind] == NULL) return OUT_OF_MEMORY_WALK_OUTPUT;
    while (!walk->is_done && walk->segments->rows < rows && walk->slices->rows < rows && walk->waited->rows < rows) {
        if (walk->rows.release != NULL && walk->row < walk->rows.length) {
            if (!step(walk)) return OUT_OF_MEMORY_WALK_OUTPUT;
            continue;
        }
        if (walk->rows.release != NULL) walk->rows.release(&walk->rows);
        walk->row = 0;
        if (walk->input.get_next(&walk->input, &walk->rows) != 0) return FAILED_WALK_OUTPUT;
        walk->is_done = walk->rows.release == NULL;
        if (walk->is_done && !end_thread(walk)) return OUT_OF_MEMORY_WALK_OUTPUT;
    }
    for (int kind = SLICES_WALK_OUTPUT; kind <= WAITS_WALK_OUTPUT; kind++)
        if ((*batches[kind])->rows > (*batches[fullest])->rows) fullest = kind;
    if ((*batches[fullest])->rows == 0) return IS_DONE_WALK_OUTPUT;
    batch_export(*batches[fullest], out);
    *batches[fullest] = NULL;
    return fullest;
}

TRACEKIT_EXPORT const char *tracekit_walk_error(struct walk *walk) { return walk->input.get_last_error(&walk->input); }
