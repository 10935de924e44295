/* Rows of a database -> events: each column of a query is a number, a word or an argument of the row's event. */

#ifndef TRACEKIT_ROWS_H
#define TRACEKIT_ROWS_H

#include "event.h"
#include "json.h"
#include "labels.h"

#include <stdio.h>

/* The current row's cells: functions as SQLite's C interface has them. https://sqlite.org/c3ref/funclist.html */
struct cells {
    int (*step)(void *rows);
    void *(*cell)(void *rows, int column);
    int (*type)(void *cell);
    int64_t (*integer)(void *cell);
    double (*real)(void *cell);
    const uint8_t *(*text)(void *cell);
    int (*size)(void *cell);
    void *rows;
};
enum { TOO_BIG = 18, ROW = 100, DONE = 101 };
enum { INTEGER_CELL = 1, REAL_CELL, TEXT_CELL, BLOB_CELL, NULL_CELL };

/* What becomes of a column: the same numbers as in tracekit/native/rows.py. */
enum kind { NUMBER, THREAD, WORD, MEMBER, ITEM, VERBATIM, OPERATOR, CONSTANT };
struct role {
    int32_t kind, place;         /* of a number: its column; of a word: which */
    const char *before, *after;  /* text around an argument; before: a constant word */
};

enum { MOST_ROWS = 8192, MANY_BYTES = 4 << 20, MOST_EVENT_BYTES = 64 << 20 };

struct row_reader {
    const struct cells *cells;
    struct batch *batch;
    struct labels *labels;
    struct json *json;           /* for scanning */
    size_t words[WORDS][2];      /* where they begin and end in `unescaped` */
    bool has[WORDS];
};

/* -- text ----------------------------------------------------------------------------------------- */

static bool put(struct heap *heap, const char *text) { return heap_add(heap, text, strlen(text)); }

/* Appends text, with escapes for JSON if it is quoted; what is not UTF-8 becomes U+FFFD. */
static bool put_text(struct json *json, struct heap *heap, const uint8_t *at, size_t size, bool is_quoted) {
    const uint8_t *end = at + size, *run = at;
    char escape[8];
    json->end = end;
    if (is_quoted && !put(heap, "\"")) return false;
    while (at < end) {
        if (end - at >= 8) {
            unsigned plain = plain_bytes(at);
            at += plain;
            if (plain == 8) continue;
        }
        bool is_escaped = is_quoted && (*at < ' ' || *at == '"' || *at == '\\');
        const uint8_t *next = *at < 0x80 ? at + 1 : utf8_end(json, at);
        if (is_escaped || next == NULL) {
            if (!heap_add(heap, run, (size_t)(at - run))) return false;
            if (!is_escaped) strcpy(escape, "\xef\xbf\xbd");
            else snprintf(escape, sizeof escape, *at < ' ' ? "\\u%04x" : "\\%c", *at);
            if (!put(heap, escape)) return false;
            run = next = at + 1;
        }
        at = next;
    }
    return heap_add(heap, run, (size_t)(end - run)) && (!is_quoted || put(heap, "\""));
}

static bool put_integer(struct heap *heap, int64_t value) {
    uint8_t text[20], *end = text + sizeof text, *at = end;
    uint64_t left = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do *--at = (uint8_t)('0' + left % 10);
    while (left /= 10);
    if (value < 0) *--at = '-';
    return heap_add(heap, at, (size_t)(end - at));
}

/* As SQLite writes it; with a point, so that it stays a real number. */
static bool put_real(struct heap *heap, double value) {
    char text[32];
    int size = snprintf(text, sizeof text, "%.15g", value);
    for (int i = 0; i < size; i++)
        if (text[i] == ',') text[i] = '.';
    return put(heap, text) && (strspn(text, "-0123456789") < (size_t)size || put(heap, ".0"));
}

static bool put_cell(struct row_reader *reader, struct heap *heap, void *cell, bool is_quoted) {
    const struct cells *cells = reader->cells;
    int type = cells->type(cell);
    if (type == INTEGER_CELL) return put_integer(heap, cells->integer(cell));
    if (type == REAL_CELL) return put_real(heap, cells->real(cell));
    const uint8_t *text = cells->text(cell);
    return put_text(reader->json, heap, text, text == NULL ? 0 : (size_t)cells->size(cell), is_quoted);
}

/* -- parts of an event ---------------------------------------------------------------------------- */

static bool put_key(struct heap *heap, const char *before) {
    return (heap->bytes[heap->size - 1] == '{' || put(heap, ",")) && put(heap, before);
}

/* Makes what is in `unescaped` from `begin` on a word. */
static void set_word(struct row_reader *reader, int word, size_t begin) {
    reader->words[word][0] = begin;
    reader->words[word][1] = reader->labels->unescaped.size;
    reader->has[word] = true;
}

static bool set_constant(struct row_reader *reader, int word, const char *text) {
    size_t begin = reader->labels->unescaped.size;
    if (!put(&reader->labels->unescaped, text)) return false;
    set_word(reader, word, begin);
    return true;
}

static const uint8_t *find(const uint8_t *at, const uint8_t *end, const char *sought) {
    size_t size = strlen(sought);
    while (at < end && (at = memchr(at, *sought, (size_t)(end - at))) != NULL && (size_t)(end - at) >= size) {
        if (memcmp(at, sought, size) == 0) return at;
        at++;
    }
    return NULL;
}

/* An argument that is an integer written at `at`. */
static bool put_number(struct heap *heap, const char *before, const uint8_t *at, const uint8_t *end) {
    int64_t value = 0;
    for (int digits = 0; at < end && is_digit(*at) && digits < 18; at++, digits++) value = value * 10 + (*at - '0');
    return put_key(heap, before) && put_integer(heap, value);
}

/* The name of an NVTX range and, of PyTorch's operators, the arguments that are in it:
 * "aten::mul, seq = 7, op_id = 12, sizes = [[2, 3]], input_op_ids = [...]"
 * https://github.com/pytorch/pytorch/blob/main/torch/csrc/profiler/util.cpp (getNvtxStr) */
static bool put_operator(struct row_reader *reader, struct heap *args, void *cell) {
    static const char seq[] = ", seq = ", op[] = ", op_id = ", sizes[] = ", sizes = ", inputs[] = ", input_op_ids = ";
    struct heap *unescaped = &reader->labels->unescaped;
    struct json *json = reader->json;
    size_t begin = unescaped->size;
    const uint8_t *text = reader->cells->text(cell);
    const uint8_t *end = text + (text == NULL ? 0 : reader->cells->size(cell)), *at_op = find(text, end, op);
    const uint8_t *at_seq = at_op == NULL ? NULL : find(text, at_op, seq);
    const uint8_t *name_end = at_seq != NULL ? at_seq : at_op != NULL ? at_op : end;
    if (!put_text(json, unescaped, text, (size_t)(name_end - text), false)) return false;
    set_word(reader, NAME, begin);
    if (!set_constant(reader, CATEGORY, at_op == NULL ? "user_annotation" : "cpu_op")) return false;
    if (at_op == NULL) return true;
    if (!put_number(args, "\"Record function id\":", at_op + sizeof op - 1, end)) return false;
    if (at_seq != NULL && !put_number(args, "\"Sequence number\":", at_seq + sizeof seq - 1, end)) return false;
    const uint8_t *at_sizes = find(at_op, end, sizes), *at_inputs = find(at_op, end, inputs);
    if (at_sizes != NULL) {
        const uint8_t *shapes = at_sizes + sizeof sizes - 1, *last = at_inputs > shapes ? at_inputs : end;
        if (!put_key(args, "\"Input Dims\":")) return false;
        size_t before = args->size;
        json->end = last;
        json->heap = args;
        json_copy(json, shapes);
        bool is_json = shapes < last && *shapes == '[' && json_value(json, shapes) == last && json_copied(json, last);
        json->run = NULL;
        if (!is_json) {
            args->size = before;
            if (!put_text(json, args, shapes, (size_t)(last - shapes), true)) return false;
        }
    }
    if (at_inputs == NULL) return true;
    at_inputs += sizeof inputs - 1;
    return put_key(args, "\"Input op ids\":") && put_text(json, args, at_inputs, (size_t)(end - at_inputs), true);
}

/* What a column says of the event; false when there is no memory. */
static bool read_cell(struct row_reader *reader, const struct role *role, void *cell) {
    const struct cells *cells = reader->cells;
    struct heap *args = &reader->batch->heap, *unescaped = &reader->labels->unescaped;
    size_t begin = unescaped->size;
    if (role->kind == ITEM)
        return put_key(args, role->before) && put_integer(args, cells->integer(cell)) && put(args, role->after);
    if (cells->type(cell) == NULL_CELL) return true;
    int64_t value;
    switch ((enum kind)role->kind) {
    case NUMBER: set_integer(reader->batch, role->place, cells->integer(cell)); return true;
    case THREAD:
        value = cells->integer(cell);
        set_integer(reader->batch, PID, value >> 24 & 0xffffff);
        set_integer(reader->batch, TID, value & 0xffffff);
        return true;
    case WORD:
        if (!put_cell(reader, unescaped, cell, false)) return false;
        set_word(reader, role->place, begin);
        return true;
    case MEMBER:
        if (!put_key(args, role->before)) return false;
        if (role->place < 0) return put_cell(reader, args, cell, true);
        value = cells->integer(cell);
        set_integer(reader->batch, role->place, value);
        return put_integer(args, value);
    case VERBATIM: {
        const uint8_t *text = cells->text(cell);
        int size = text == NULL ? 0 : cells->size(cell);
        return size == 0 || (put_key(args, "") && heap_add(args, text, (size_t)size));
    }
    case OPERATOR: return put_operator(reader, args, cell);
    default: return true;
    }
}

/* The current row; false when there is no memory, or the event is too large. */
static bool read_row(struct row_reader *reader, const struct role *roles, int n_roles, int64_t event_id) {
    struct batch *batch = reader->batch;
    struct label label = {0};
    size_t begin = batch->heap.size;
    int64_t label_id;
    int column = 0;
    reader->labels->unescaped.size = 0;
    memset(reader->has, 0, sizeof reader->has);
    set_integer(batch, EVENT_ID, event_id);
    set_integer(batch, PID, 0);
    set_integer(batch, TID, 0);
    if (!put(&batch->heap, "{")) return false;
    for (const struct role *role = roles; role < roles + n_roles; role++) {
        if (role->kind == CONSTANT ? !set_constant(reader, role->place, role->before)
                                   : !read_cell(reader, role, reader->cells->cell(reader->cells->rows, column++)))
            return false;
        if (batch->heap.size - begin + reader->labels->unescaped.size > MOST_EVENT_BYTES) return false;
    }
    if (!put(&batch->heap, "}")) return false;
    set_text(batch, ARGS, begin);
    for (int i = 0; i < WORDS; i++) {
        if (!reader->has[i]) continue;
        label.words[i].text = reader->labels->unescaped.bytes + reader->words[i][0];
        label.words[i].size = reader->words[i][1] - reader->words[i][0];
    }
    if (!label_number(reader->labels, &label, &label_id)) return false;
    set_integer(batch, LABEL, label_id);
    return batch_close_row(batch);
}

/* -- what Python calls ---------------------------------------------------------------------------- */

/* What was read. */
struct rows_read {
    int64_t text_bytes;    /* of arguments and words */
    int32_t status;        /* ROW: there may be more; DONE; 0: out of memory; else SQLite's error */
    int32_t many_labels;   /* 1: the caller should take the new labels */
};

/* Reads some of the next rows as events; the first gets the number `first_id`. */
TRACEKIT_EXPORT void tracekit_read_rows(
    const struct cells *cells, const struct role *roles, int32_t n_roles, int64_t first_id, struct labels *labels,
    struct ArrowArray *out, struct rows_read *read
) {
    struct row_reader reader = {
        .cells = cells, .batch = batch_new(columns, COLUMNS), .labels = labels, .json = calloc(1, sizeof(struct json))
    };
    struct batch *batch = reader.batch;
    *out = (struct ArrowArray){0};
    *read = (struct rows_read){0};
    if (batch == NULL || reader.json == NULL) goto failed;
    for (;;) {
        if (batch->rows == MOST_ROWS || batch->heap.size > MANY_BYTES || labels_are_many(labels)) {
            read->status = ROW;
            break;
        }
        if ((read->status = cells->step(cells->rows)) != ROW) break;
        if (!read_row(&reader, roles, n_roles, first_id + batch->rows)) {
            read->status = batch->heap.size + labels->unescaped.size > MOST_EVENT_BYTES ? TOO_BIG : 0;
            goto failed;
        }
        read->text_bytes += (int64_t)labels->unescaped.size;
    }
    read->text_bytes += (int64_t)batch->heap.size;
    read->many_labels = labels_are_many(labels);
    batch_clear_row(batch);
    batch_export(batch, out);
    free(reader.json);
    return;
failed:
    free(reader.json);
    batch_free(batch);
}

/* -- rows that Python holds ----------------------------------------------------------------------- */

/* Functions and types of Python's C interface. https://docs.python.org/3/c-api/stable.html */
struct python {
    void *(*list_item)(void *list, ptrdiff_t place), *(*tuple_item)(void *tuple, ptrdiff_t place);
    int (*is_instance)(void *object, void *type);
    int64_t (*integer)(void *object);
    double (*real)(void *object);
    char *(*bytes)(void *object);
    ptrdiff_t (*size)(void *object);
    void *type_of_integers, *type_of_reals, *type_of_bytes;
};
/* A list of tuples; cells are objects. */
struct tuples {
    void *list, *row;
    int64_t next, count;
};

static const struct python *python;

static int tuples_step(void *rows) {
    struct tuples *tuples = rows;
    if (tuples->next == tuples->count) return DONE;
    tuples->row = python->list_item(tuples->list, tuples->next++);
    return ROW;
}

static void *tuples_cell(void *rows, int column) { return python->tuple_item(((struct tuples *)rows)->row, column); }

static int object_type(void *object) {
    return python->is_instance(object, python->type_of_integers) ? INTEGER_CELL
           : python->is_instance(object, python->type_of_bytes)  ? BLOB_CELL
           : python->is_instance(object, python->type_of_reals)  ? REAL_CELL
                                                                 : NULL_CELL;
}

static int64_t object_integer(void *object) {
    int type = object_type(object);
    return type == INTEGER_CELL ? python->integer(object) : type == REAL_CELL ? (int64_t)python->real(object) : 0;
}

static const uint8_t *object_text(void *object) {
    return object_type(object) == BLOB_CELL ? (const uint8_t *)python->bytes(object) : NULL;
}

static double object_real(void *object) { return python->real(object); }

static int object_size(void *object) { return object_type(object) == BLOB_CELL ? (int)python->size(object) : 0; }

/* The cells of a list of tuples, as Python's module sqlite3 gives rows. The caller holds Python's lock. */
TRACEKIT_EXPORT void tracekit_tuples(const struct python *functions, struct tuples *tuples, struct cells *out) {
    python = functions;
    *out = (struct cells){
        tuples_step, tuples_cell, object_type, object_integer, object_real, object_text, object_size, tuples,
    };
}

#endif
