/* A record batch that grows row by row: nullable columns of 64-bit integers and of text, handed over through
 * the Arrow C data interface. */

#ifndef TRACEKIT_BATCH_H
#define TRACEKIT_BATCH_H

#include "arrow.h"
#include "export.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_COLUMNS = 20 };

/* JSON is text that DuckDB need not check again. */
enum column_type { INTEGER, TEXT, JSON };

struct column {
    const char *name;
    enum column_type type;
};

/* A string of an Arrow view column: short strings are stored in it, others in the batch's heap.
 * https://arrow.apache.org/docs/format/Columnar.html#variable-size-binary-view-layout */
enum { INLINE_BYTES = 12, PREFIX_BYTES = 4 };
struct view {
    int32_t size;
    union {
        uint8_t bytes[INLINE_BYTES];
        struct {
            uint8_t prefix[PREFIX_BYTES];
            int32_t buffer, offset;
        } in_heap;
    } text;
};

/* A growing buffer of bytes. */
struct heap {
    uint8_t *bytes;
    size_t size, capacity;
};

/* Columns while they are filled, and until the last one is released. */
struct batch {
    atomic_int users;
    const struct column *columns;
    int n_columns;
    int64_t rows, capacity;   /* the row being filled comes after these */
    void *values[MOST_COLUMNS];   /* int64_t or struct view */
    uint8_t *valid[MOST_COLUMNS];
    struct heap heap;
    int64_t heap_size;
    struct ArrowArray arrays[MOST_COLUMNS], *children[MOST_COLUMNS];
    const void *buffers[MOST_COLUMNS][4], *no_buffer[1];
};

/* Room for `size` more bytes; false when there is no memory. */
static inline bool heap_reserve(struct heap *heap, size_t size) {
    if (heap->capacity - heap->size >= size) return true;
    size_t capacity = heap->capacity + heap->capacity / 2 + size;
    uint8_t *bytes = realloc(heap->bytes, capacity);
    if (bytes == NULL) return false;
    heap->bytes = bytes;
    heap->capacity = capacity;
    return true;
}

static inline bool heap_add(struct heap *heap, const void *bytes, size_t size) {
    if (size == 0) return true;
    if (!heap_reserve(heap, size)) return false;
    memcpy(heap->bytes + heap->size, bytes, size);
    heap->size += size;
    return true;
}

static inline size_t value_size(const struct column *column) {
    return column->type == INTEGER ? sizeof(int64_t) : sizeof(struct view);
}

static inline void batch_free(struct batch *batch) {
    if (batch == NULL) return;
    for (int i = 0; i < batch->n_columns; i++) {
        free(batch->values[i]);
        free(batch->valid[i]);
    }
    free(batch->heap.bytes);
    free(batch);
}

/* Room for `capacity` items instead of `used`, the new ones all zero; false when there is no memory. */
static inline bool grow(void **array, int64_t used, int64_t capacity, size_t size) {
    uint8_t *grown = realloc(*array, (size_t)capacity * size);
    if (grown == NULL) return false;
    memset(grown + (size_t)used * size, 0, (size_t)(capacity - used) * size);
    *array = grown;
    return true;
}

static inline bool batch_grow(struct batch *batch) {
    int64_t used = batch->capacity, capacity = used ? used * 2 : 1024;
    for (int i = 0; i < batch->n_columns; i++)
        if (!grow(&batch->values[i], used, capacity, value_size(&batch->columns[i])) ||
            !grow((void **)&batch->valid[i], used / 8, capacity / 8, 1))
            return false;
    batch->capacity = capacity;
    return true;
}

/* Commits the current row and starts the next; false when there is no memory. */
static inline bool batch_close_row(struct batch *batch) {
    return ++batch->rows < batch->capacity || batch_grow(batch);
}

/* Clears the current row. */
static inline void batch_clear_row(struct batch *batch) {
    for (int i = 0; i < batch->n_columns; i++) {
        size_t size = value_size(&batch->columns[i]);
        memset((uint8_t *)batch->values[i] + (size_t)batch->rows * size, 0, size);
        batch->valid[i][batch->rows / 8] &= (uint8_t)((1 << batch->rows % 8) - 1);
    }
}

/* A batch without rows; NULL when there is no memory. */
static inline struct batch *batch_new(const struct column *columns, int n_columns) {
    struct batch *batch = calloc(1, sizeof *batch);
    if (batch == NULL) return NULL;
    batch->columns = columns;
    batch->n_columns = n_columns;
    if (batch_grow(batch)) return batch;
    batch_free(batch);
    return NULL;
}

static inline bool is_set(const struct batch *batch, int column) {
    return batch->valid[column][batch->rows / 8] >> batch->rows % 8 & 1;
}

static inline void set_valid(struct batch *batch, int column) {
    batch->valid[column][batch->rows / 8] |= (uint8_t)(1 << batch->rows % 8);
}

static inline void set_integer(struct batch *batch, int column, int64_t value) {
    ((int64_t *)batch->values[column])[batch->rows] = value;
    set_valid(batch, column);
}

/* The text is in the heap from `begin` on; a short one is removed from it. */
static inline void set_text(struct batch *batch, int column, size_t begin) {
    struct view *view = (struct view *)batch->values[column] + batch->rows;
    size_t size = batch->heap.size - begin;
    const uint8_t *text = batch->heap.bytes + begin;
    view->size = (int32_t)size;
    set_valid(batch, column);
    if (size <= INLINE_BYTES) {
        for (size_t i = 0; i < size; i++) view->text.bytes[i] = text[i];
        batch->heap.size = begin;
    } else {
        memcpy(view->text.in_heap.prefix, text, PREFIX_BYTES);
        view->text.in_heap.buffer = 0;
        view->text.in_heap.offset = (int32_t)begin;
    }
}

/* -- Arrow ---------------------------------------------------------------------------------------- */

static inline void batch_release(struct ArrowArray *array) {
    struct batch *batch = array->private_data;
    for (int64_t i = 0; i < array->n_children; i++)
        if (array->children[i]->release != NULL) array->children[i]->release(array->children[i]);
    array->release = NULL;
    if (atomic_fetch_sub(&batch->users, 1) == 1) batch_free(batch);
}

/* The bits after the last row are clear, because the current row is empty. */
static inline int64_t count_nulls(const struct batch *batch, int column) {
    int64_t nulls = batch->rows;
    for (int64_t i = 0; i < (batch->rows + 7) / 8; i++) nulls -= __builtin_popcount(batch->valid[column][i]);
    return nulls;
}

/* Hands the rows over; the batch is freed when they are released. */
static inline void batch_export(struct batch *batch, struct ArrowArray *out) {
    batch->heap_size = (int64_t)batch->heap.size;
    batch->users = batch->n_columns + 1;
    for (int i = 0; i < batch->n_columns; i++) {
        const void **buffers = batch->buffers[i];
        buffers[0] = batch->valid[i];
        buffers[1] = batch->values[i];
        buffers[2] = batch->heap.bytes;
        buffers[3] = &batch->heap_size;
        batch->arrays[i] = (struct ArrowArray){
            .length = batch->rows, .null_count = count_nulls(batch, i),
            .n_buffers = batch->columns[i].type == INTEGER ? 2 : 4,
            .buffers = buffers, .release = batch_release, .private_data = batch,
        };
        batch->children[i] = &batch->arrays[i];
    }
    *out = (struct ArrowArray){
        .length = batch->rows, .n_buffers = 1, .buffers = batch->no_buffer, .n_children = batch->n_columns,
        .children = batch->children, .release = batch_release, .private_data = batch,
    };
}

/* Metadata is the number of pairs, then each key and value after its size. */
#define JSON_TYPE_KEY "ARROW:extension:name"
#define JSON_TYPE_VALUE "arrow.json"
struct schema {
    struct ArrowSchema columns[MOST_COLUMNS], *children[MOST_COLUMNS];
    char json_type[3 * sizeof(int32_t) + sizeof JSON_TYPE_KEY + sizeof JSON_TYPE_VALUE];
};

static inline char *put_sized(char *into, const char *text) {
    int32_t size = (int32_t)strlen(text);
    memcpy(into, &size, sizeof size);
    memcpy(into + sizeof size, text, strlen(text));
    return into + sizeof size + size;
}

static inline void release_column(struct ArrowSchema *schema) { schema->release = NULL; }

static inline void release_schema(struct ArrowSchema *schema) {
    free(schema->private_data);
    schema->release = NULL;
}

/* The columns' names and types; 0 when done. */
static inline int schema_export(const struct column *columns, int n_columns, struct ArrowSchema *out) {
    struct schema *schema = calloc(1, sizeof *schema);
    const int32_t one = 1;
    if (schema == NULL) return 1;
    memcpy(schema->json_type, &one, sizeof one);
    put_sized(put_sized(schema->json_type + sizeof one, JSON_TYPE_KEY), JSON_TYPE_VALUE);
    for (int i = 0; i < n_columns; i++) {
        schema->columns[i] = (struct ArrowSchema){
            .format = columns[i].type == INTEGER ? "l" : "vu", .name = columns[i].name,
            .metadata = columns[i].type == JSON ? schema->json_type : NULL,
            .flags = ARROW_FLAG_NULLABLE, .release = release_column,
        };
        schema->children[i] = &schema->columns[i];
    }
    *out = (struct ArrowSchema){
        .format = "+s", .name = "", .n_children = n_columns, .children = schema->children,
        .release = release_schema, .private_data = schema,
    };
    return 0;
}

#endif
