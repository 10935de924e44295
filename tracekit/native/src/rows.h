/* Rows of a database -> events: each column of a query is a number, a word or an argument of the row's event. */

#ifndef TRACEKIT_ROWS_H
#define TRACEKIT_ROWS_H

#include "event.h"
#include "labels.h"
#include "put.h"

/* What reads values: functions as SQLite's C interface has them. https://sqlite.org/c3ref/funclist.html */
struct values {
    int (*type)(void *value);
    int64_t (*integer)(void *value);
    double (*real)(void *value);
    const uint8_t *(*text)(void *value);
    int (*size)(void *value);
    int (*step)(void *statement);
};
enum { TOO_BIG = 18, ROW = 100, DONE = 101 };
enum { INTEGER_VALUE = 1, REAL_VALUE, TEXT_VALUE, BLOB_VALUE, NULL_VALUE };

/* What becomes of a column: the same numbers as in tracekit/native/rows.py. */
enum kind { NUMBER, END, THREAD, ONE_WORD, MEMBER, ITEM, VERBATIM, CALL, OPERATOR, CONSTANT };
struct role {
    int32_t kind, place;         /* of a number: its column; of a word: which */
    const char *before, *after;  /* text around an argument; before: a constant word */
    int64_t before_size;
};

struct row_reader {
    const struct values *values;
    const struct role *roles;
    int64_t n_roles, first_id;
    struct batch *batch;
    struct labels *labels;
    struct json *json;           /* for scanning */
    size_t words[WORDS][2];      /* where they begin and end in `unescaped` */
    bool has[WORDS], has_failed;
};

static bool put_value(struct row_reader *reader, struct heap *heap, void *value, bool is_quoted) {
    const struct values *values = reader->values;
    int type = values->type(value);
    if (type == INTEGER_VALUE) return put_integer(heap, values->integer(value));
    if (type == REAL_VALUE) return put_real(heap, values->real(value));
    const uint8_t *text = values->text(value);
    return put_text(reader->json, heap, text, text == NULL ? 0 : (size_t)values->size(value), is_quoted);
}

/* -- parts of an event ---------------------------------------------------------------------------- */

/* Appends what comes before an argument: a comma, which the first does without, and the key. */
static bool put_key(struct heap *heap, const char *before, size_t size) {
    bool is_first = heap->bytes[heap->size - 1] == '{';
    return heap_add(heap, before + is_first, size - is_first);
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
    return put_key(heap, before, strlen(before)) && put_integer(heap, value);
}

/* The name of a call of the runtime, without the version that nsys adds to it, or of the driver. */
static bool put_call(struct row_reader *reader, void *value) {
    const uint8_t *text = reader->values->text(value);
    size_t begin = reader->labels->unescaped.size, size = text == NULL ? 0 : (size_t)reader->values->size(value);
    bool is_runtime = size >= 4 && memcmp(text, "cuda", 4) == 0;
    size_t bare = size;
    while (bare > 0 && is_digit(text[bare - 1])) bare--;
    if (is_runtime && bare < size && text[bare - 1] == 'v' && text[bare - 2] == '_') size = bare - 2;
    if (!put_text(reader->json, &reader->labels->unescaped, text, size, false)) return false;
    set_word(reader, NAME, begin);
    return set_constant(reader, CATEGORY, is_runtime ? "cuda_runtime" : "cuda_driver");
}

/* The name and the arguments in the text of an NVTX range, if PyTorch wrote it for an operator:
 * "aten::mul, seq = 7, op_id = 12, sizes = [[2, 3]], input_op_ids = [...]"
 * https://github.com/pytorch/pytorch/blob/main/torch/csrc/profiler/util.cpp (getNvtxStr) */
static bool put_operator(struct row_reader *reader, struct heap *args, void *value) {
    static const char seq[] = ", seq = ", op[] = ", op_id = ", sizes[] = ", sizes = ", inputs[] = ", input_op_ids = ";
    struct heap *unescaped = &reader->labels->unescaped;
    struct json *json = reader->json;
    size_t begin = unescaped->size;
    const uint8_t *text = reader->values->text(value), *end = text + (text == NULL ? 0 : reader->values->size(value));
    const uint8_t *at_op = find(text, end, op);
    if (at_op == NULL) return true;
    const uint8_t *at_seq = find(text, at_op, seq), *name_end = at_seq != NULL ? at_seq : at_op;
    if (!put_text(json, unescaped, text, (size_t)(name_end - text), false)) return false;
    set_word(reader, NAME, begin);
    if (!set_constant(reader, CATEGORY, "cpu_op")) return false;
    if (!put_number(args, ",\"Record function id\":", at_op + sizeof op - 1, end)) return false;
    if (at_seq != NULL && !put_number(args, ",\"Sequence number\":", at_seq + sizeof seq - 1, end)) return false;
    const uint8_t *at_sizes = find(at_op, end, sizes), *at_inputs = find(at_op, end, inputs);
    if (at_sizes != NULL) {
        const uint8_t *shapes = at_sizes + sizeof sizes - 1, *last = at_inputs > shapes ? at_inputs : end;
        if (!put_key(args, ",\"Input Dims\":", 14)) return false;
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
    return put_key(args, ",\"Input op ids\":", 16) && put_text(json, args, at_inputs, (size_t)(end - at_inputs), true);
}

/* What a column says of the event; false when there is no memory. */
static bool read_value(struct row_reader *reader, const struct role *role, void *value) {
    const struct values *values = reader->values;
    struct batch *batch = reader->batch;
    struct heap *args = &batch->heap, *unescaped = &reader->labels->unescaped;
    size_t begin = unescaped->size, before_size = (size_t)role->before_size;
    bool is_null = values->type(value) == NULL_VALUE;
    if (is_null && role->kind != ITEM) return true;
    int64_t number;
    switch ((enum kind)role->kind) {
    case NUMBER: set_integer(batch, role->place, values->integer(value)); return true;
    case END:
        number = values->integer(value);
        set_integer(batch, DUR, (int64_t)((uint64_t)number - (uint64_t)((int64_t *)batch->values[TS])[batch->rows]));
        return true;
    case THREAD:
        number = values->integer(value);
        set_integer(batch, PID, number >> 24 & 0xffffff);
        set_integer(batch, TID, number & 0xffffff);
        return true;
    case ONE_WORD:
        if (!put_value(reader, unescaped, value, false)) return false;
        set_word(reader, role->place, begin);
        return true;
    case MEMBER:
        if (!put_key(args, role->before, before_size)) return false;
        if (role->place < 0) return put_value(reader, args, value, true);
        number = values->integer(value);
        set_integer(batch, role->place, number);
        return put_integer(args, number);
    case ITEM:
        number = is_null ? 0 : values->integer(value);
        return put_key(args, role->before, before_size) && put_integer(args, number) && put(args, role->after);
    case VERBATIM: {
        const uint8_t *text = values->text(value);
        int size = text == NULL ? 0 : values->size(value);
        return size == 0 || (put_key(args, ",", 1) && heap_add(args, text, (size_t)size));
    }
    case CALL: return put_call(reader, value);
    case OPERATOR: return put_operator(reader, args, value);
    default: return true;
    }
}

/* A link of an event, or 0. */
static int64_t link_of(const struct batch *batch, int column) {
    return is_set(batch, column) ? ((int64_t *)batch->values[column])[batch->rows] : 0;
}

/* A row; false when there is no memory, or the event is too large. */
static bool read_row(struct row_reader *reader, void **values) {
    struct batch *batch = reader->batch;
    struct heap *unescaped = &reader->labels->unescaped;
    struct label label = {0};
    size_t begin = batch->heap.size;
    int64_t label_id;
    unescaped->size = 0;
    memset(reader->has, 0, sizeof reader->has);
    set_integer(batch, EVENT_ID, reader->first_id + batch->rows);
    if (!put(&batch->heap, "{")) return false;
    for (const struct role *role = reader->roles; role < reader->roles + reader->n_roles; role++) {
        if (role->kind == CONSTANT ? !set_constant(reader, role->place, role->before)
                                   : !read_value(reader, role, *values++))
            return false;
        if (batch->heap.size - begin + unescaped->size > MOST_EVENT_BYTES) return false;
    }
    if (!put(&batch->heap, "}")) return false;
    set_text(batch, ARGS, begin);
    if (!is_set(batch, PID)) set_integer(batch, PID, link_of(batch, DEVICE));
    if (!is_set(batch, TID)) set_integer(batch, TID, link_of(batch, STREAM));
    for (int i = 0; i < WORDS; i++) {
        if (!reader->has[i]) continue;
        label.words[i].text = unescaped->bytes + reader->words[i][0];
        label.words[i].size = reader->words[i][1] - reader->words[i][0];
    }
    if (!label_number(reader->labels, &label, &label_id)) return false;
    set_integer(batch, LABEL, label_id);
    return batch_close_row(batch);
}

/* -- what Python calls ---------------------------------------------------------------------------- */

/* The reader of the query that this thread steps. */
static _Thread_local struct row_reader *stepping;

/* An SQL function of a row's columns: adds the row to the batch. */
TRACEKIT_EXPORT void tracekit_add_row(void *context, int count, void **values) {
    (void)context;
    (void)count;
    if (stepping != NULL && !stepping->has_failed) stepping->has_failed = !read_row(stepping, values);
}

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

static const struct python *python;

static int object_type(void *object) {
    return python->is_instance(object, python->type_of_integers) ? INTEGER_VALUE
           : python->is_instance(object, python->type_of_bytes)  ? BLOB_VALUE
           : python->is_instance(object, python->type_of_reals)  ? REAL_VALUE
                                                                 : NULL_VALUE;
}

static int64_t object_integer(void *object) {
    int type = object_type(object);
    return type == INTEGER_VALUE ? python->integer(object) : type == REAL_VALUE ? (int64_t)python->real(object) : 0;
}

static double object_real(void *object) { return python->real(object); }

static const uint8_t *object_text(void *object) {
    return object_type(object) == BLOB_VALUE ? (const uint8_t *)python->bytes(object) : NULL;
}

static int object_size(void *object) { return object_type(object) == BLOB_VALUE ? (int)python->size(object) : 0; }

static const struct values objects = {object_type, object_integer, object_real, object_text, object_size, NULL};

/* Rows to read: those of a statement of SQLite, which calls `tracekit_add_row` for each; or a list of tuples, as
 * Python's module sqlite3 makes them, with Python's lock held. */
struct rows {
    const struct values *values;
    void *statement;
    const struct python *python;
    void *list;
    int64_t next, count;         /* of the tuples */
    const struct role *roles;
    int64_t n_roles, n_columns;
    int64_t text_bytes;          /* what was read: of arguments and words */
    int32_t status;              /* ROW: there may be more; DONE; 0: out of memory; else SQLite's error */
    int32_t many_labels;         /* 1: the caller should take the new labels */
};

enum { MOST_QUERY_COLUMNS = 100 };

static int next_row(struct rows *rows) {
    void *objects_of_row[MOST_QUERY_COLUMNS], *tuple;
    if (rows->statement != NULL) return rows->values->step(rows->statement);
    if (rows->next == rows->count) return DONE;
    tuple = python->list_item(rows->list, rows->next++);
    for (int64_t i = 0; i < rows->n_columns; i++) objects_of_row[i] = python->tuple_item(tuple, i);
    tracekit_add_row(NULL, 0, objects_of_row);
    return ROW;
}

/* Reads some of the next rows as events; the first gets the number `first_id`. */
TRACEKIT_EXPORT void tracekit_read_rows(
    struct rows *rows, int64_t first_id, struct labels *labels, struct ArrowArray *out
) {
    struct row_reader reader = {
        .values = rows->statement != NULL ? rows->values : &objects, .roles = rows->roles, .n_roles = rows->n_roles,
        .first_id = first_id, .labels = labels, .batch = batch_new(columns, COLUMNS),
        .json = calloc(1, sizeof(struct json)),
    };
    struct batch *batch = reader.batch;
    *out = (struct ArrowArray){0};
    rows->text_bytes = rows->status = 0;
    if (rows->statement == NULL) python = rows->python;
    if (batch == NULL || reader.json == NULL || !heap_reserve(&batch->heap, MANY_BYTES)) goto failed;
    stepping = &reader;
    do {
        rows->status = next_row(rows);
        rows->text_bytes += (int64_t)labels->unescaped.size;
    } while (rows->status == ROW && !reader.has_failed && batch->rows < MOST_ROWS && batch->heap.size < MANY_BYTES &&
             !labels_are_many(labels));
    stepping = NULL;
    if (reader.has_failed) {
        rows->status = batch->heap.size + labels->unescaped.size > MOST_EVENT_BYTES ? TOO_BIG : 0;
        goto failed;
    }
    rows->text_bytes += (int64_t)batch->heap.size;
    rows->many_labels = labels_are_many(labels);
    batch_clear_row(batch);
    batch_export(batch, out);
    free(reader.json);
    return;
failed:
    free(reader.json);
    batch_free(batch);
}

#endif
