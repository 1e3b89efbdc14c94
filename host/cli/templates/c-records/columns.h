/* Columns of numbers and text in the structures of Arrow's C data interface. The reader creates these structures,
 * and the writer reads them. The receiver of a structure owns it, and calls its `release` once.
 *
 * Arrow defines the structures (<https://arrow.apache.org/docs/format/CDataInterface.html>, CStreamInterface.html). A C
 * library for Arrow, such as nanoarrow, can replace this file.
 */
#ifndef COLUMNS_H
#define COLUMNS_H
#include "ferry_plugin.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE
#define ARROW_FLAG_NULLABLE 2

struct ArrowSchema {
  const char *format;
  const char *name;
  const char *metadata;
  int64_t flags;
  int64_t n_children;
  struct ArrowSchema **children;
  struct ArrowSchema *dictionary;
  void (*release)(struct ArrowSchema *);
  void *private_data;
};

struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void **buffers;
  struct ArrowArray **children;
  struct ArrowArray *dictionary;
  void (*release)(struct ArrowArray *);
  void *private_data;
};
#endif

#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE
struct ArrowArrayStream {
  int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *out);
  int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *out);
  const char *(*get_last_error)(struct ArrowArrayStream *);
  void (*release)(struct ArrowArrayStream *);
  void *private_data;
};
#endif

/* The Arrow formats that this plugin uses. */
#define INTEGERS "l" /* 64 bits */
#define FLOATS "g"   /* 64 bits */
#define TEXTS "u"    /* UTF-8, up to 2 GiB in an array */
#define ROWS "+s"    /* a struct, whose children are the columns */

/* ---- a growing buffer ---- */

typedef struct {
  uint8_t *bytes;
  size_t len, room;
} Buffer;

/* Returns 0 if there is not enough memory. */
static inline int append(Buffer *buffer, const void *bytes, size_t len) {
  if (len > buffer->room - buffer->len) {
    size_t room = (buffer->len + len) * 2 + 64;
    uint8_t *more = realloc(buffer->bytes, room);
    if (!more) return 0;
    buffer->bytes = more;
    buffer->room = room;
  }
  if (len) memcpy(buffer->bytes + buffer->len, bytes, len);
  buffer->len += len;
  return 1;
}

/* ---- schemas ---- */

static inline void release_schema(struct ArrowSchema *schema) {
  for (int64_t i = 0; i < schema->n_children; i++) {
    struct ArrowSchema *child = schema->children[i];
    /* If a child was moved away, its new owner releases it. */
    if (child && child->release) child->release(child);
    free(child);
  }
  free(schema->children);
  free((void *)schema->name);
  schema->release = NULL;
}

/* Begins a schema. The caller creates its children. If memory runs out, releases it and returns 0. */
static inline int make_schema(struct ArrowSchema *out, const char *format, const char *name, size_t children) {
  memset(out, 0, sizeof *out);
  out->format = format;
  out->flags = ARROW_FLAG_NULLABLE;
  out->release = release_schema;
  char *copy = malloc(strlen(name) + 1);
  if (copy) out->name = strcpy(copy, name);
  if (children) out->children = calloc(children, sizeof *out->children);
  int is_made = copy && (!children || out->children);
  for (size_t i = 0; i < children && is_made; i++) {
    is_made = (out->children[i] = calloc(1, sizeof **out->children)) != NULL;
    if (is_made) out->n_children++;
  }
  if (!is_made) release_schema(out);
  return is_made;
}

/* ---- arrays ---- */

static inline void release_array(struct ArrowArray *array) {
  for (int64_t i = 0; i < array->n_buffers; i++) free((void *)array->buffers[i]);
  for (int64_t i = 0; i < array->n_children; i++) {
    struct ArrowArray *child = array->children[i];
    if (child && child->release) child->release(child);
    free(child);
  }
  free(array->buffers);
  free(array->children);
  array->release = NULL;
}

/* Begins an array. The caller sets its buffers and children. If memory runs out, releases it and returns 0. */
static inline int make_array(struct ArrowArray *out, int64_t length, size_t buffers, size_t children) {
  memset(out, 0, sizeof *out);
  out->length = length;
  out->release = release_array;
  out->buffers = calloc(buffers, sizeof *out->buffers);
  if (out->buffers) out->n_buffers = (int64_t)buffers;
  if (children) out->children = calloc(children, sizeof *out->children);
  int is_made = out->buffers && (!children || out->children);
  for (size_t i = 0; i < children && is_made; i++) {
    is_made = (out->children[i] = calloc(1, sizeof **out->children)) != NULL;
    if (is_made) out->n_children++;
  }
  if (!is_made) release_array(out);
  return is_made;
}

/* A column to which values are appended. A value of all zeros is an empty column of numbers, which `begin_texts` turns into
 * a column of text. */
typedef struct {
  Buffer validity; /* one bit per row, lowest first: 0 for null */
  Buffer values;   /* eight bytes per row; for text, 32-bit offsets of each start and of the last end */
  Buffer texts;
  int is_texts;
  int64_t rows, nulls;
} Column;

static inline int begin_texts(Column *column) {
  int32_t start = 0;
  column->is_texts = 1;
  return append(&column->values, &start, sizeof start);
}

/* Adds a row: a number as its eight bytes in memory, a string as its bytes, or null without a value. Returns 0 if memory ran
 * out, or if the array would have more than 2 GiB of text. */
static inline int add_row(Column *column, const void *value, size_t len) {
  static const uint8_t zeros[8] = {0};
  uint8_t bit = (uint8_t)(1 << column->rows % 8);
  if (bit == 1 && !append(&column->validity, zeros, 1)) return 0;
  if (value) column->validity.bytes[column->validity.len - 1] |= bit;
  column->nulls += !value;
  column->rows++;
  if (!column->is_texts) return append(&column->values, value ? value : zeros, 8);
  if (value && (len > INT32_MAX - column->texts.len || !append(&column->texts, value, len))) return 0;
  int32_t end = (int32_t)column->texts.len;
  return append(&column->values, &end, sizeof end);
}

static inline void free_column(Column *column) {
  free(column->validity.bytes);
  free(column->values.bytes);
  free(column->texts.bytes);
  memset(column, 0, sizeof *column);
}

/* Converts a column to an array, which becomes the owner of the column's bytes. */
static inline int finish_column(Column *column, struct ArrowArray *out) {
  if (!make_array(out, column->rows, column->is_texts ? 3 : 2, 0)) return 0;
  out->null_count = column->nulls;
  out->buffers[0] = column->validity.bytes;
  out->buffers[1] = column->values.bytes;
  if (column->is_texts) out->buffers[2] = column->texts.bytes;
  memset(column, 0, sizeof *column);
  return 1;
}

/* ---- arrays from the host ---- */

/* Returns whether a row has a value. Rows count from the `offset` of the array, in each of its buffers. */
static inline int is_valid(const struct ArrowArray *array, int64_t row) {
  const uint8_t *bits = array->buffers[0];
  row += array->offset;
  return !bits || bits[row / 8] >> row % 8 & 1;
}

/* The eight bytes of a number. */
static inline uint64_t number_at(const struct ArrowArray *array, int64_t row) {
  return ((const uint64_t *)array->buffers[1])[row + array->offset];
}

static inline FerryBytes text_at(const struct ArrowArray *array, int64_t row) {
  const int32_t *ends = (const int32_t *)array->buffers[1] + array->offset;
  const uint8_t *texts = array->buffers[2]; /* may be null if all are empty */
  FerryBytes text = {texts ? texts + ends[row] : NULL, (size_t)(ends[row + 1] - ends[row])};
  return text;
}
#endif
