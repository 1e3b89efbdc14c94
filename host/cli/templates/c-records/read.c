/* The reader. A file consists of a header and a sequence of rows. Opening a file finds the rows. Each split has a stream, which
 * decodes the values when the host pulls it. The host pulls each stream in a separate thread.
 */
#include "cursor.h"
#include <pthread.h>

#define ROWS_OF_A_SPLIT 65536
/* ---- an open file ---- */

typedef struct {
  uint64_t offset, bytes, rows;
  uint64_t first; /* the number of the split's first row in the file */
} Split;

/* The failure of a stream, and the ticket of the stream. */
typedef struct Kept {
  uint64_t ticket;
  Failure failure;
  struct Kept *next;
} Kept;

/* The host keeps a set at least as long as its streams. */
typedef struct {
  FerrySource source;
  uint32_t file;
  char *name;
  uint64_t len, most;
  Fields fields;
  Split *splits;
  size_t split_count;
  pthread_mutex_t lock; /* protects the fields below */
  uint64_t last_ticket;
  Kept *kept;
} Set;

static Cursor cursor_of(const Set *set, uint64_t offset, uint64_t end, FerryErrorSink err) {
  Cursor at = {.source = set->source, .file = set->file, .name = set->name, .offset = offset, .end = end,
               .most = set->most, .begin = UINT64_MAX, .err = err};
  return at;
}

static int32_t read_header(Set *set, Cursor *at) {
  const uint8_t *bytes;
  int32_t status = take(at, MAGIC_LEN, &bytes);
  if (status) return status;
  if (memcmp(bytes, MAGIC, MAGIC_LEN)) return malformed(at, 0, "not a tray");
  if ((status = take(at, 2, &bytes))) return status;
  for (uint64_t left = number(bytes, 2); left--;) {
    uint64_t start = at->offset;
    if ((status = take(at, 2, &bytes))) return status;
    uint8_t code = bytes[0], len = bytes[1];
    if (!format_of(code)) return malformed(at, start, "no such kind of column");
    if ((status = take(at, len, &bytes))) return status;
    if (!is_utf8(bytes, len) || memchr(bytes, 0, len)) return malformed(at, start, "a column's name is not text");
    if (has_field(&set->fields, (const char *)bytes, len)) return malformed(at, start, "two columns have the same name");
    if (!add_field(&set->fields, code, bytes, len, 0)) return no_memory(at->err);
  }
  return FERRY_DONE;
}

static int32_t skip_row(Cursor *at) {
  const uint8_t *bytes;
  int32_t status = take(at, 4, &bytes);
  return status ? status : skip(at, number(bytes, 4));
}

/* Checks the framing of all rows. */
static int32_t find_splits(Set *set, Cursor *at, FerryContext context) {
  uint64_t rows = 0;
  while (at->offset < at->end) {
    uint8_t is_cancelled = 0;
    int32_t status = context.table->cancelled(context.self, &is_cancelled, at->err);
    if (status) return status;
    if (is_cancelled) return fail(at->err, FERRY_CANCELLED, "cancelled");
    Split split = {.offset = at->offset, .first = rows};
    while (split.rows < ROWS_OF_A_SPLIT && at->offset < at->end) {
      if ((status = skip_row(at))) return status;
      split.rows++;
    }
    split.bytes = at->offset - split.offset;
    rows += split.rows;
    Split *more = realloc(set->splits, (set->split_count + 1) * sizeof *more);
    if (!more) return no_memory(at->err);
    set->splits = more;
    set->splits[set->split_count++] = split;
  }
  return FERRY_DONE;
}

static int32_t drop_set(void *self, FerryErrorSink err) {
  Set *set = self;
  /* `open` received the source, and the set owns it. */
  int32_t status = FERRY_HAS(set->source, drop) ? set->source.table->drop(set->source.self, err) : FERRY_DONE;
  while (set->kept) {
    Kept *next = set->kept->next;
    free(set->kept);
    set->kept = next;
  }
  pthread_mutex_destroy(&set->lock);
  free_fields(&set->fields);
  free(set->splits);
  free(set->name);
  free(set);
  return status;
}

static int32_t open_file(Set *set, FerryContext context, FerryErrorSink err) {
  uint32_t kind = 0;
  FerryText name;
  int32_t status = set->source.table->entry(set->source.self, &kind, &name, err);
  if (!status && kind != 0) status = fail(err, FERRY_UNSUPPORTED, "a tray is one file");
  if (!status) status = set->source.table->open(set->source.self, name, &set->file, err);
  if (!status) status = set->source.table->info(set->source.self, set->file, &set->len, &name, err);
  if (!status) status = context.table->limit(context.self, text_of("header_bytes"), &set->most, err);
  if (status) return status;
  if (!(set->name = malloc(name.len + 1))) return no_memory(err);
  copy_text(set->name, name.len + 1, name);
  Cursor at = cursor_of(set, 0, set->len, err);
  if (!(status = read_header(set, &at))) status = find_splits(set, &at, context);
  free(at.window.bytes);
  return status;
}

static const FerryRecordSetTable SET;

static int32_t open_set(void *self, FerrySource source, FerryLossSink losses, FerryContext context,
                        FerryRecordSet *out, FerryErrorSink err) {
  (void)self, (void)losses;
  Set *set = calloc(1, sizeof *set);
  if (!set) {
    if (FERRY_HAS(source, drop)) source.table->drop(source.self, err);
    return no_memory(err);
  }
  set->source = source;
  pthread_mutex_init(&set->lock, NULL);
  int32_t status = open_file(set, context, err);
  if (status) {
    /* A message from `drop` must not replace the reason for the failure. */
    Failure ignored = {0};
    drop_set(set, sink_of(&ignored));
    return status;
  }
  out->table = &SET;
  out->self = set;
  return FERRY_DONE;
}

const FerryRecordReaderTable READER = {.size = sizeof READER, .open = open_set};

/* Builds the schema of the given columns of a set, in the given order. */
static int schema_of(const Set *set, const uint32_t *columns, size_t count, struct ArrowSchema *out) {
  if (!make_schema(out, ROWS, "", count)) return 0;
  for (size_t i = 0; i < count; i++) {
    const Field *field = &set->fields.all[columns[i]];
    if (!make_schema(out->children[i], format_of(field->code), field->name, 0)) {
      out->release(out);
      return 0;
    }
  }
  return 1;
}

/* Finds the indexes and the number of the requested columns. */
static int32_t wanted(const Set *set, const FerryScan *scan, uint32_t **columns, size_t *count, FerryErrorSink err) {
  *count = 0;
  if (!(*columns = calloc(set->fields.count + 1, sizeof **columns))) return no_memory(err);
  if (!scan) {
    for (; *count < set->fields.count; (*count)++) (*columns)[*count] = (uint32_t)*count;
    return FERRY_DONE;
  }
  /* A path consists of its length and a column. Columns of a tray do not have nested fields. */
  for (size_t i = 0; i < scan->columns.len; i += 2) {
    if (scan->columns.len - i < 2 || scan->columns.ptr[i] != 1 || scan->columns.ptr[i + 1] >= set->fields.count ||
        *count == set->fields.count)
      return fail(err, FERRY_PLUGIN_FAULT, "no such column");
    (*columns)[(*count)++] = scan->columns.ptr[i + 1];
  }
  return FERRY_DONE;
}

static int32_t schema(void *self, struct ArrowSchema *out, FerryErrorSink err) {
  const Set *set = self;
  uint32_t *columns = NULL;
  size_t count;
  int32_t status = wanted(set, NULL, &columns, &count, err);
  if (!status && !schema_of(set, columns, count, out)) status = no_memory(err);
  free(columns);
  return status;
}

static int32_t splits(void *self, FerrySplitSink sink, FerryErrorSink err) {
  const Set *set = self;
  int32_t status = FERRY_DONE;
  for (size_t i = 0; i < set->split_count && !status; i++) {
    const Split *at = &set->splits[i];
    FerrySplit split = {.size = sizeof split, .file = text_of(set->name), .offset = at->offset, .bytes = at->bytes,
                        .records = at->rows};
    status = sink.table->split(sink.self, &split, err);
  }
  return status;
}

/* ---- a stream ---- */

typedef struct {
  Set *set;
  uint32_t *columns;
  size_t count;
  Cursor at;
  uint64_t row, left;   /* number of the next row in the file; rows still requested */
  uint64_t rows, bytes; /* of a batch: the maximum, and the approximate size */
  uint64_t ticket;
  Failure failure;
} Stream;

static int32_t decode_row(const Stream *stream, Cursor *at, Column *columns) {
  const uint8_t *bytes;
  uint64_t start = at->offset;
  int32_t status = take(at, 4, &bytes);
  if (status) return status;
  uint64_t left = number(bytes, 4);
  if ((status = take(at, left, &bytes))) return status;
  size_t next = 0;
  for (size_t i = 0; i < stream->set->fields.count; i++) {
    int is_text = stream->set->fields.all[i].code == 3, is_value;
    uint64_t len = 0;
    const char *wrong = NULL;
    if (!left) wrong = "a row that is shorter than its values";
    else if (*bytes > 1) wrong = "neither null nor a value";
    if (!wrong) {
      is_value = *bytes++;
      left--;
      len = is_value ? is_text ? 4 : 8 : 0;
      if (len > left) wrong = "a row that is shorter than its values";
      else if (is_value && is_text) {
        len = number(bytes, 4);
        bytes += 4;
        left -= 4;
        if (len > left) wrong = "a row that is shorter than its values";
        else if (!is_utf8(bytes, (size_t)len)) wrong = "a string that is not UTF-8";
      }
    }
    if (wrong) {
      malformed(at, start, wrong);
      add_detail(at->err, "column", stream->set->fields.all[i].name);
      return FERRY_MALFORMED;
    }
    if (next < stream->count && stream->columns[next] == i) {
      uint64_t value = is_text || !is_value ? 0 : number(bytes, 8);
      const void *added = !is_value ? NULL : is_text ? (const void *)bytes : &value;
      if (!add_row(&columns[next++], added, (size_t)len)) return no_memory(at->err);
    }
    bytes += len;
    left -= len;
  }
  return left ? malformed(at, start, "a row that is longer than its values") : FERRY_DONE;
}

static int32_t next_batch(Stream *stream, Column *columns, struct ArrowArray *out) {
  uint64_t begin = stream->at.offset;
  int64_t rows = 0;
  for (size_t i = 0; i < stream->count; i++)
    if (stream->set->fields.all[stream->columns[i]].code == 3 && !begin_texts(&columns[i])) return no_memory(stream->at.err);
  while (stream->left && (!rows || ((uint64_t)rows < stream->rows && stream->at.offset - begin < stream->bytes))) {
    int32_t status = decode_row(stream, &stream->at, columns);
    if (status) {
      char number[24];
      snprintf(number, sizeof number, "%llu", (unsigned long long)stream->row);
      add_detail(stream->at.err, "record", number);
      return status;
    }
    rows++;
    stream->row++;
    stream->left--;
  }
  if (!make_array(out, rows, 1, stream->count)) return no_memory(stream->at.err);
  for (size_t i = 0; i < stream->count; i++)
    if (!finish_column(&columns[i], out->children[i])) {
      out->release(out);
      return no_memory(stream->at.err);
    }
  return FERRY_DONE;
}

static int get_schema(struct ArrowArrayStream *self, struct ArrowSchema *out) {
  const Stream *stream = self->private_data;
  return schema_of(stream->set, stream->columns, stream->count, out) ? 0 : 12 /* ENOMEM */;
}

/* Records the reason why a stream failed, which `fault` returns. */
static void keep(Stream *stream, int32_t status) {
  stream->failure.status = status;
  stream->left = 0; /* nothing follows */
  Kept *kept = malloc(sizeof *kept);
  if (!kept) return;
  kept->ticket = stream->ticket;
  kept->failure = stream->failure;
  pthread_mutex_lock(&stream->set->lock);
  kept->next = stream->set->kept;
  stream->set->kept = kept;
  pthread_mutex_unlock(&stream->set->lock);
}

static int get_next(struct ArrowArrayStream *self, struct ArrowArray *out) {
  Stream *stream = self->private_data;
  memset(out, 0, sizeof *out); /* an array without `release` is the end */
  if (!stream->left) return 0;
  stream->at.err = sink_of(&stream->failure);
  Column *columns = calloc(stream->count + 1, sizeof *columns);
  int32_t status = columns ? next_batch(stream, columns, out) : no_memory(stream->at.err);
  for (size_t i = 0; i < stream->count && columns; i++) free_column(&columns[i]);
  free(columns);
  if (status) keep(stream, status);
  return status ? 5 /* EIO */ : 0;
}

static const char *get_last_error(struct ArrowArrayStream *self) {
  const Stream *stream = self->private_data;
  return *stream->failure.message ? stream->failure.message : NULL;
}

static void release_stream(struct ArrowArrayStream *self) {
  Stream *stream = self->private_data;
  free(stream->at.window.bytes);
  free(stream->columns);
  free(stream);
  self->release = NULL;
}

static int32_t begin_stream(Stream *stream, const FerryScan *scan, FerryErrorSink err) {
  Set *set = stream->set;
  if (scan->split >= set->split_count) return fail(err, FERRY_PLUGIN_FAULT, "no such split");
  const Split *split = &set->splits[scan->split];
  int32_t status = wanted(set, scan->is_projected ? scan : NULL, &stream->columns, &stream->count, err);
  if (status) return status;
  stream->at = cursor_of(set, split->offset, split->offset + split->bytes, err);
  uint64_t first = scan->first_row < split->rows ? scan->first_row : split->rows;
  for (uint64_t i = 0; i < first; i++)
    if ((status = skip_row(&stream->at))) return status;
  stream->row = split->first + first;
  stream->left = split->rows - first < scan->limit ? split->rows - first : scan->limit;
  stream->rows = scan->rows;
  stream->bytes = scan->bytes;
  pthread_mutex_lock(&set->lock);
  stream->ticket = ++set->last_ticket;
  pthread_mutex_unlock(&set->lock);
  return FERRY_DONE;
}

/* The host applies the predicate to every row that it receives. */
static int32_t scan(void *self, const FerryScan *scan, FerryPredicate predicate, struct ArrowArrayStream *out,
                    uint64_t *ticket, FerryErrorSink err) {
  (void)predicate;
  Stream *stream = calloc(1, sizeof *stream);
  if (!stream) return no_memory(err);
  stream->set = self;
  int32_t status = begin_stream(stream, scan, err);
  struct ArrowArrayStream made = {get_schema, get_next, get_last_error, release_stream, stream};
  if (status) {
    release_stream(&made);
    return status;
  }
  *out = made;
  *ticket = stream->ticket;
  return FERRY_DONE;
}

static int32_t fault(void *self, uint64_t ticket, FerryErrorSink err) {
  Set *set = self;
  pthread_mutex_lock(&set->lock);
  Kept **place = &set->kept;
  while (*place && (*place)->ticket != ticket) place = &(*place)->next;
  Kept *kept = *place;
  if (kept) *place = kept->next;
  pthread_mutex_unlock(&set->lock);
  int32_t status = kept ? tell(&kept->failure, err) : FERRY_DONE;
  free(kept);
  return status;
}

/* The functions for skipping rows and for narrowing are null, because this set supports neither. */
static const FerryRecordSetTable SET = {.size = sizeof SET, .drop = drop_set, .schema = schema, .splits = splits,
                                        .scan = scan, .fault = fault};
