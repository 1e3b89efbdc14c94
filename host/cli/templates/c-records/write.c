/* The writer. Each file starts with the header. Each piece is a sequence of rows that does not depend on other pieces. */
#include "tray.h"
#include <stdio.h>

typedef struct {
  char *file;
  Fields fields;
} Plan;

static int append_number(Buffer *buffer, uint64_t value, int len) {
  uint8_t bytes[8];
  for (int i = 0; i < len; i++) bytes[i] = (uint8_t)(value >> 8 * i);
  return append(buffer, bytes, (size_t)len);
}

static int32_t no_memory(FerryErrorSink err) { return fail(err, FERRY_LIMIT, "no memory for the rows"); }

static int32_t push(FerryByteSink output, const Buffer *buffer, FerryErrorSink err) {
  FerryBytes bytes = {buffer->bytes, buffer->len};
  return output.table->write(output.self, bytes, err);
}

/* A column that is missing from the output is reported to the user as a loss. */
static int32_t lose(FerryLossSink losses, const struct ArrowSchema *column, const char *name, FerryErrorSink err) {
  char why[200];
  snprintf(why, sizeof why, "a tray stores only int64, float64 and text with short names, not Arrow's %s%.100s",
           column->dictionary ? "dictionary of " : "", column->dictionary ? column->dictionary->format : column->format);
  FerryLoss loss = {.size = sizeof loss, .kind = text_of("record"), .what = text_of(name), .why = text_of(why)};
  return losses.table->loss(losses.self, &loss, err);
}

static int32_t find_fields(Plan *plan, const struct ArrowSchema *schema, FerryLossSink losses, FerryErrorSink err) {
  for (int64_t i = 0; i < schema->n_children; i++) {
    const struct ArrowSchema *column = schema->children[i];
    const char *name = column->name ? column->name : "";
    size_t len = strlen(name);
    /* The format of a dictionary is the format of its keys. */
    uint8_t code = column->dictionary ? 0 : code_of(column->format);
    int32_t status = FERRY_DONE;
    if (!code || len > UINT8_MAX) {
      status = lose(losses, column, name, err);
    } else if (has_field(&plan->fields, name, len)) {
      status = fail(err, FERRY_UNSUPPORTED, "two columns have the same name: rename one");
      add_detail(err, "column", name);
    } else if (!add_field(&plan->fields, code, (const uint8_t *)name, len, i)) {
      status = no_memory(err);
    }
    if (status) return status;
  }
  if (plan->fields.count > UINT16_MAX || (!plan->fields.count && schema->n_children))
    return fail(err, FERRY_UNSUPPORTED, "no column that a tray can store, or more than 65535 columns");
  return FERRY_DONE;
}

static int32_t drop_plan(void *self, FerryErrorSink err) {
  (void)err;
  Plan *plan = self;
  free_fields(&plan->fields);
  free(plan->file);
  free(plan);
  return FERRY_DONE;
}

static const FerryRecordPlanTable PLAN;

/* The host keeps ownership of the schema, because the plan does not store any part of it. */
static int32_t plan(void *self, struct ArrowSchema *schema, const FerryRecordOutput *output, FerryLossSink losses,
                    FerryContext context, FerryRecordPlan *out, FerryErrorSink err) {
  (void)self, (void)context;
  FerryText file = output->target_kind == 0 ? output->target_name : text_of("rows.tray");
  Plan *plan = calloc(1, sizeof *plan);
  if (!plan || !(plan->file = calloc(file.len + 1, 1))) {
    free(plan);
    return no_memory(err);
  }
  memcpy(plan->file, file.ptr, file.len);
  int32_t status = find_fields(plan, schema, losses, err);
  if (status) {
    drop_plan(plan, err);
    return status;
  }
  out->table = &PLAN;
  out->self = plan;
  return FERRY_DONE;
}

const FerryRecordWriterTable WRITER = {.size = sizeof WRITER, .plan = plan};

static int32_t files(void *self, FerryNameSink names, FerryErrorSink err) {
  const Plan *plan = self;
  return names.table->name(names.self, text_of(plan->file), err);
}

static int32_t begin(void *self, uint32_t file, FerryByteSink output, FerryErrorSink err) {
  (void)file;
  const Plan *plan = self;
  Buffer header = {0};
  int fits = append(&header, MAGIC, MAGIC_LEN) && append_number(&header, plan->fields.count, 2);
  for (size_t i = 0; i < plan->fields.count && fits; i++) {
    const Field *field = &plan->fields.all[i];
    size_t len = strlen(field->name);
    fits = append_number(&header, field->code, 1) && append_number(&header, len, 1) && append(&header, field->name, len);
  }
  int32_t status = fits ? push(output, &header, err) : no_memory(err);
  free(header.bytes);
  return status;
}

/* Appends a value. Returns 0 if memory ran out. */
static int append_value(Buffer *bytes, uint8_t code, const struct ArrowArray *column, int64_t row) {
  int is_value = is_valid(column, row);
  if (!append_number(bytes, (uint64_t)is_value, 1)) return 0;
  if (!is_value) return 1;
  if (code != 3) return append_number(bytes, number_at(column, row), 8);
  FerryBytes text = text_at(column, row);
  return append_number(bytes, text.len, 4) && append(bytes, text.ptr, text.len);
}

static int32_t append_rows(const Plan *plan, const struct ArrowArray *batch, Buffer *bytes, FerryErrorSink err) {
  for (int64_t row = 0; row < batch->length; row++) {
    size_t start = bytes->len;
    int fits = append_number(bytes, 0, 4);
    for (size_t i = 0; i < plan->fields.count && fits; i++) {
      const Field *field = &plan->fields.all[i];
      /* The rows of a struct are the rows of its columns, starting at its own offset. */
      fits = append_value(bytes, field->code, batch->children[field->place], row + batch->offset);
    }
    if (!fits) return no_memory(err);
    uint64_t len = bytes->len - start - 4;
    if (len > UINT32_MAX) return fail(err, FERRY_UNSUPPORTED, "a row of more than 4 GiB");
    for (int i = 0; i < 4; i++) bytes->bytes[start + (size_t)i] = (uint8_t)(len >> 8 * i);
  }
  return FERRY_DONE;
}

/* The host keeps ownership of the stream, because this function does not move it. The function owns each batch that it pulls. */
static int32_t encode(void *self, struct ArrowArrayStream *batches, FerryByteSink output, FerryLossSink losses,
                      FerryByteSink note, FerryErrorSink err) {
  (void)losses, (void)note; /* `finish` does not need any information about the piece */
  const Plan *plan = self;
  Buffer bytes = {0};
  int32_t status = FERRY_DONE;
  while (!status) {
    struct ArrowArray batch = {0};
    if (batches->get_next(batches, &batch)) {
      const char *why = batches->get_last_error(batches);
      status = fail(err, FERRY_IO, why ? why : "the rows could not be read");
      break;
    }
    if (!batch.release) break;
    bytes.len = 0;
    status = append_rows(plan, &batch, &bytes, err);
    batch.release(&batch);
    if (!status) status = push(output, &bytes, err);
  }
  free(bytes.bytes);
  return status;
}

/* Functions that the writer does not implement are null: a tail, files that describe other files, notes, and a limit on the
 * rows of a piece. */
static const FerryRecordPlanTable PLAN = {.size = sizeof PLAN, .drop = drop_plan, .files = files, .begin = begin,
                                          .encode = encode};
