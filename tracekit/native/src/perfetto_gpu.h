/* GPU events in Perfetto traces: counters and render stages. PyTorch writes kernels and copies as render stages.
 * https://perfetto.dev/docs/reference/trace-packet-proto (GpuRenderStageEvent, GpuCounterEvent); PyTorch's writer
 * is torch/profiler/_cuspy/trace.py */

#ifndef TRACEKIT_PERFETTO_GPU_H
#define TRACEKIT_PERFETTO_GPU_H

#include "perfetto_events.h"

struct stage {
    uint64_t event_id, queue, stage, kernel, name_number;
    struct text name, launch;
    bool has_waits;
    int64_t gpu;
};

/* An annotation's value: PyTorch writes numbers and lists as text. */
static bool put_stage_value(struct args *args, struct text text) {
    bool may_be_json = text.size > 0 && strchr("-0123456789[{", *text.at) != NULL && *text.at != 0;
    bool is_number = text.size > 0 && text.size < 18 && is_digit(*text.at) &&
                     (*text.at != '0' || text.size == 1 || text.at[1] == '.');
    size_t point = text.size;
    int64_t value = 0;
    for (size_t i = 0; is_number && i < text.size; i++) {
        if (is_digit(text.at[i])) value = value * 10 + (text.at[i] - '0');
        else if (text.at[i] == '.' && point == text.size && i + 1 < text.size) point = i;
        else is_number = false;
    }
    if (is_number) {
        args->current->is_integer = point == text.size;
        args->current->integer = value;
        return heap_add(&args->heap, text.at, text.size);
    }
    if (may_be_json) return put_json(args, &args->heap, text);
    return put_text(args->json, &args->heap, text.at, text.size, true);
}

static bool add_stage_data(struct perfetto *reader, struct text message) {
    struct cursor cursor = cursor_of(message);
    struct field field = {0};
    struct text name = {message.at, 0}, value = {message.at, 0};
    while (next_field(&cursor, &field)) {
        if (field.tag == TAG(1, SIZED)) name = field.text;
        else if (field.tag == TAG(2, SIZED)) value = field.text;
    }
    if (cursor.is_damaged) return fails(&reader->kept, DAMAGED);
    if (!args_begin(&reader->args, &reader->kept, renamed(reader->words.stage_arguments, name))) return false;
    return put_stage_value(&reader->args, value) ? args_end(&reader->args) : fails(&reader->kept, NO_MEMORY);
}

/* A launch's shape: three numbers. */
static bool add_shape(struct perfetto *reader, const char *key, struct text message) {
    struct args *args = &reader->args;
    struct cursor cursor = cursor_of(message);
    struct field field = {0};
    uint32_t axes[3] = {0};
    while (next_field(&cursor, &field))
        for (uint32_t axis = 0; axis < 3; axis++)
            if (field.tag == TAG(axis + 1, VARINT)) axes[axis] = (uint32_t)field.number;
    if (cursor.is_damaged) return fails(&reader->kept, DAMAGED);
    if (!args_begin(args, &reader->kept, text_of(key))) return false;
    for (int axis = 0; axis < 3; axis++)
        if (!put(&args->heap, axis ? "," : "[") || !put_integer(&args->heap, axes[axis]))
            return fails(&reader->kept, NO_MEMORY);
    return put(&args->heap, "]") ? args_end(args) : fails(&reader->kept, NO_MEMORY);
}

static bool add_launch_argument(struct perfetto *reader, const struct sequence *sequence, struct text message) {
    struct args *args = &reader->args;
    struct heap *heap = &args->heap;
    struct cursor cursor = cursor_of(message);
    struct field field = {0}, value = {0};
    struct text name = {message.at, 0};
    uint64_t number = 0;
    bool done = true;
    while (next_field(&cursor, &field)) {
        switch (field.tag) {
        case TAG(1, VARINT): number = field.number; break;
        case TAG(2, SIZED): name = field.text; break;
        case TAG(3, VARINT): case TAG(4, VARINT): case TAG(5, FIXED64): case TAG(6, SIZED):
            if (value.tag == 0 || field.tag <= value.tag) value = field;
        }
    }
    if (cursor.is_damaged) return fails(&reader->kept, DAMAGED);
    if (value.tag == 0) return true;
    if (name.size == 0) interned(reader, sequence, KERNEL_ARGUMENTS, number, &name);
    if (!args_begin(args, &reader->kept, renamed(reader->words.stage_arguments, name))) return false;
    switch (value.tag) {
    case TAG(3, VARINT):
        args->current->is_integer = true;
        args->current->integer = (int64_t)value.number;
        done = put_integer(heap, (int64_t)value.number);
        break;
    case TAG(4, VARINT): done = put_unsigned(heap, value.number); break;
    case TAG(5, FIXED64): done = put_double(heap, double_of(value.number)); break;
    default: done = put_text(args->json, heap, value.text.at, value.text.size, true);
    }
    return done ? args_end(args) : fails(&reader->kept, NO_MEMORY);
}

static bool add_launch(struct perfetto *reader, const struct sequence *sequence, struct text message) {
    struct cursor cursor = cursor_of(message);
    struct field field = {0};
    struct text grid = {message.at, 0}, block = {message.at, 0};
    while (next_field(&cursor, &field)) {
        if (field.tag == TAG(1, SIZED)) grid = field.text;
        else if (field.tag == TAG(2, SIZED)) block = field.text;
    }
    if (cursor.is_damaged) return fails(&reader->kept, DAMAGED);
    if (!add_shape(reader, "grid", grid) || !add_shape(reader, "block", block)) return false;
    cursor = cursor_of(message);
    while (next_field(&cursor, &field))
        if (field.tag == TAG(3, SIZED) && !add_launch_argument(reader, sequence, field.text)) return false;
    return true;
}

/* The events that a stage waits for, by number. */
static bool add_waits(struct perfetto *reader, const struct stage *stage, struct text message) {
    struct args *args = &reader->args;
    struct cursor cursor = cursor_of(message);
    struct field field = {0};
    uint64_t number;
    bool done = true;
    if (!args_unsigned(args, &reader->kept, "event id", stage->event_id)) return false;
    if (!args_begin(args, &reader->kept, text_of("waits for"))) return false;
    reader->flows.size = 0;
    while (next_field(&cursor, &field))
        if ((field.tag == TAG(18, VARINT) || field.tag == TAG(18, SIZED)) &&
            !add_numbers(reader, &reader->flows, &field, 0))
            return false;
    for (size_t at = 0; done && at < reader->flows.size; at += sizeof number) {
        memcpy(&number, reader->flows.bytes + at, sizeof number);
        done = put(&args->heap, at ? "," : "[") && put_unsigned(&args->heap, number);
    }
    return done && put(&args->heap, "]") ? args_end(args) : fails(&reader->kept, NO_MEMORY);
}

static bool read_stage_fields(
    struct perfetto *reader, struct text message, struct stage *stage, struct record *record
) {
    struct cursor cursor = cursor_of(message);
    struct field field = {0};
    uint64_t duration = 0;
    bool done = true;
    *stage = (struct stage){.name = {message.at, 0}};
    args_clear(&reader->args);
    while (done && next_field(&cursor, &field)) {
        switch (field.tag) {
        case TAG(1, VARINT): stage->event_id = field.number; break;
        case TAG(2, VARINT): duration = field.number; break;
        case TAG(6, SIZED): done = add_stage_data(reader, field.text); break;
        case TAG(11, VARINT): stage->gpu = (int32_t)field.number; break;
        case TAG(13, VARINT): stage->queue = field.number; break;
        case TAG(14, VARINT): stage->stage = field.number; break;
        case TAG(17, SIZED): stage->name = field.text; break;
        case TAG(18, VARINT): stage->has_waits = true; break;
        case TAG(18, SIZED): stage->has_waits |= field.text.size > 0; break;
        case TAG(19, VARINT): stage->kernel = field.number; break;
        case TAG(20, VARINT): stage->name_number = field.number; break;
        case TAG(21, SIZED): stage->launch = field.text; break;
        }
    }
    if (duration <= INT64_MAX) {
        record->has |= HAS_DUR;
        record->dur = (int64_t)duration;
    }
    return cursor.is_damaged ? fails(&reader->kept, DAMAGED) : done;
}

/* A process or a thread: the value of an argument, or a number that stands for its text. */
static void set_place(struct record *record, const struct args *args, const char *key, int flag, int64_t *place) {
    const struct member *member = args_find(args, key);
    *place = member->integer;
    if (member->is_integer || place_number(args_value(args, member), place)) record->has |= (uint16_t)flag;
}

/* What a stage's arguments have besides its own data. */
static bool add_stage_arguments(
    struct perfetto *reader, const struct sequence *sequence, const struct stage *stage, struct text message
) {
    struct args *args = &reader->args;
    if (!args_find(args, "device") && !args_integer(args, &reader->kept, "device", stage->gpu)) return false;
    if (!args_find(args, "stream") && !args_unsigned(args, &reader->kept, "stream", stage->queue)) return false;
    if (has_text(stage->launch) && !add_launch(reader, sequence, stage->launch)) return false;
    return !stage->has_waits || add_waits(reader, stage, message);
}

static bool read_stage(struct perfetto *reader, const struct sequence *sequence, const struct packet *packet) {
    struct record record = {.kind = STAGE, .at = (int64_t)packet->timestamp};
    struct heap *heap = &reader->records;
    struct stage stage;
    if (!read_stage_fields(reader, packet->stage, &stage, &record)) return false;
    if (!add_stage_arguments(reader, sequence, &stage, packet->stage)) return false;
    struct text kind = {0}, name = stage.name;
    interned(reader, sequence, STAGES, stage.stage, &kind);
    if (name.size == 0) interned(reader, sequence, NAMES, stage.name_number, &name);
    if (name.size == 0) interned(reader, sequence, KERNELS, stage.kernel, &name);
    if (name.size == 0) name = kind;
    set_place(&record, &reader->args, "device", HAS_PID, &record.pid);
    set_place(&record, &reader->args, "stream", HAS_TID, &record.tid);
    reader->flows.size = 0;
    size_t begin = record_begin(heap);
    if (begin == SIZE_MAX || !put_name(reader, &record, name)) return fails(&reader->kept, NO_MEMORY);
    if (has_text(kind)) {
        struct text category = renamed(reader->words.stages, kind);
        if (!heap_add(heap, category.at, category.size)) return fails(&reader->kept, NO_MEMORY);
        record.has |= HAS_CATEGORY;
        record.category_size = (uint32_t)category.size;
    }
    if (!put_arguments(reader, &record, NULL)) return fails(&reader->kept, NO_MEMORY);
    return record_end(heap, begin, &record, &reader->kept);
}

/* -- counters --------------------------------------------------------------------------------------- */

static bool read_counter(
    struct perfetto *reader, const struct counter_set *set, const struct packet *packet, int64_t gpu,
    struct text message
) {
    struct heap *heap = &reader->records;
    struct cursor cursor = cursor_of(message);
    struct field field = {0};
    struct text name;
    char unnamed[40];
    uint32_t number = 0;
    int64_t count = 0;
    double real = 0;
    bool has_count = false;
    while (next_field(&cursor, &field)) {
        if (field.tag == TAG(1, VARINT)) number = (uint32_t)field.number;
        else if (field.tag == TAG(2, VARINT)) count = (int64_t)field.number, has_count = true;
        else if (field.tag == TAG(3, FIXED64)) real = double_of(field.number);
    }
    if (cursor.is_damaged) return fails(&reader->kept, DAMAGED);
    if (set == NULL || !texts_get(&set->names, &reader->kept, number, &name)) {
        snprintf(unnamed, sizeof unnamed, "counter %u", number);
        name = text_of(unnamed);
    }
    struct record record = {.kind = GPU_COUNTER, .has = HAS_PID, .at = (int64_t)packet->timestamp, .pid = gpu};
    size_t begin = record_begin(heap);
    if (begin == SIZE_MAX || !put_name(reader, &record, name)) return fails(&reader->kept, NO_MEMORY);
    size_t value = heap->size;
    if (has_count ? !put_integer(heap, count) : !put_double(heap, real)) return fails(&reader->kept, NO_MEMORY);
    record.args_size = (uint32_t)(heap->size - value);
    return record_end(heap, begin, &record, &reader->kept);
}

static bool read_counters(struct perfetto *reader, struct sequence *sequence, const struct packet *packet) {
    struct cursor cursor = cursor_of(packet->counters);
    struct field field = {0};
    struct text descriptor = {0};
    uint64_t number = 0, place;
    int64_t gpu = 0;
    while (next_field(&cursor, &field)) {
        if (field.tag == TAG(1, SIZED)) descriptor = field.text;
        else if (field.tag == TAG(3, VARINT)) gpu = (int32_t)field.number;
        else if (field.tag == TAG(4, VARINT)) number = field.number;
    }
    if (cursor.is_damaged) return fails(&reader->kept, DAMAGED);
    if (has_text(descriptor) && !read_counter_set(reader, sequence, 0, gpu, descriptor)) return false;
    place = map_get(&sequence->counters, &reader->kept, number);
    const struct counter_set *set = place > 0 ? &reader->counter_sets[place - 1] : NULL;
    if (gpu == 0 && set != NULL) gpu = set->gpu;
    cursor = cursor_of(packet->counters);
    while (next_field(&cursor, &field))
        if (field.tag == TAG(2, SIZED) && !read_counter(reader, set, packet, gpu, field.text)) return false;
    return true;
}

#endif
