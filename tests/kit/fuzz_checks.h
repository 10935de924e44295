/* What must hold of batches that are read from damaged files. */

/* Texts are inside the heap and valid UTF-8. */
static void check(const struct ArrowArray *batch, int first, int last) {
    for (int column = first; column <= last; column++) {
        const void **buffers = batch->children[column]->buffers;
        const struct view *views = buffers[1];
        for (int64_t row = 0; row < batch->length; row++) {
            const struct view *view = &views[row];
            bool is_inline = view->size <= INLINE_BYTES;
            const uint8_t *at = is_inline ? view->text.bytes : (const uint8_t *)buffers[2] + view->text.in_heap.offset;
            struct json json = {.end = at + view->size};
            if (!is_inline && view->text.in_heap.offset + view->size > *(const int64_t *)buffers[3]) abort();
            while (at < json.end)
                if ((at = *at < 0x80 ? at + 1 : utf8_end(&json, at)) == NULL) abort();
        }
    }
}

/* Arguments are valid JSON. */
static void check_json(const struct ArrowArray *batch, int column) {
    static struct json json;
    const void **buffers = batch->children[column]->buffers;
    const struct view *views = buffers[1];
    const uint8_t *valid = buffers[0];
    for (int64_t row = 0; row < batch->length; row++) {
        const struct view *view = &views[row];
        if (!(valid[row / 8] >> row % 8 & 1)) continue;
        const uint8_t *at = view->size <= INLINE_BYTES ? view->text.bytes
                                                       : (const uint8_t *)buffers[2] + view->text.in_heap.offset;
        json.end = at + view->size;
        if (view->size == 0 || *at != '{' || json_value(&json, at) != json.end) abort();
    }
}

static uint8_t *whole_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) exit(2);
    *size = (size_t)ftell(file);
    uint8_t *text = malloc(*size + 1);
    rewind(file);
    if (fread(text, 1, *size, file) != *size) exit(2);
    fclose(file);
    return text;
}
