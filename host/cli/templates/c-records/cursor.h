/* A position in a file, the bytes that follow it, and failures at this position. When an Arrow stream fails, it returns only a
 * number and a string. A `Failure` stores the other details until the host requests them.
 */
#ifndef CURSOR_H
#define CURSOR_H
#include "tray.h"
#include <stdio.h>

/* Minimum bytes per read. */
#define WINDOW 65536

typedef struct {
  int32_t status;
  char message[256];
  struct {
    char name[16], value[240];
  } details[6];
  int count;
} Failure;

static inline void copy_text(char *to, size_t room, FerryText text) {
  size_t len = text.len < room - 1 ? text.len : room - 1;
  if (len) memcpy(to, text.ptr, len);
  to[len] = 0;
}

static inline int32_t keep_message(void *self, FerryText message) {
  Failure *failure = self;
  copy_text(failure->message, sizeof failure->message, message);
  return FERRY_DONE;
}

static inline int32_t keep_detail(void *self, FerryText name, FerryText value) {
  Failure *failure = self;
  if (failure->count == sizeof failure->details / sizeof *failure->details) return FERRY_DONE;
  copy_text(failure->details[failure->count].name, sizeof failure->details->name, name);
  copy_text(failure->details[failure->count++].value, sizeof failure->details->value, value);
  return FERRY_DONE;
}

static const FerryErrorSinkTable KEEP = {.size = sizeof KEEP, .message = keep_message, .detail = keep_detail};

/* An error sink for calls to which the host does not pass one. */
static inline FerryErrorSink sink_of(Failure *failure) {
  FerryErrorSink sink = {&KEEP, failure};
  return sink;
}

static inline int32_t tell(const Failure *failure, FerryErrorSink err) {
  fail(err, failure->status, failure->message);
  for (int i = 0; i < failure->count; i++) add_detail(err, failure->details[i].name, failure->details[i].value);
  return failure->status;
}

static inline int32_t no_memory(FerryErrorSink err) { return fail(err, FERRY_LIMIT, "no memory for the rows"); }

/* ---- a position in a file, and the bytes that follow it ---- */

typedef struct {
  FerrySource source;
  uint32_t file;
  const char *name;
  uint64_t offset, end;
  uint64_t most; /* maximum bytes in memory */
  Buffer window; /* bytes of the file, starting at `begin` */
  uint64_t begin;
  FerryErrorSink err;
} Cursor;

/* Reports that the file is malformed at an offset. */
static inline int32_t malformed(const Cursor *at, uint64_t offset, const char *message) {
  char number[24];
  snprintf(number, sizeof number, "%llu", (unsigned long long)offset);
  fail(at->err, FERRY_MALFORMED, message);
  add_detail(at->err, "file", at->name);
  add_detail(at->err, "offset", number);
  return FERRY_MALFORMED;
}

static inline int32_t skip(Cursor *at, uint64_t len) {
  if (len > at->end - at->offset) return malformed(at, at->offset, "the file ends too early");
  at->offset += len;
  return FERRY_DONE;
}

/* Returns the next bytes, which remain in memory until the next call. Lengths that the file claims are checked against its size
 * and the limit before anything is allocated. */
static inline int32_t take(Cursor *at, uint64_t len, const uint8_t **bytes) {
  uint64_t start = at->offset;
  int32_t status = skip(at, len);
  if (status) return status;
  if (start < at->begin || at->offset > at->begin + at->window.len) {
    if (len > at->most) return fail(at->err, FERRY_LIMIT, "a row is longer than the limit header_bytes");
    uint64_t ahead = at->most < WINDOW ? at->most : WINDOW, read = len > ahead ? len : ahead;
    if (read > at->end - start) read = at->end - start;
    if (read > at->window.room) {
      uint8_t *more = realloc(at->window.bytes, (size_t)read);
      if (!more) return no_memory(at->err);
      at->window.bytes = more;
      at->window.room = (size_t)read;
    }
    FerryBytesMut buffer = {at->window.bytes, (size_t)read};
    at->window.len = 0;
    if ((status = at->source.table->read_at(at->source.self, at->file, start, buffer, at->err))) return status;
    at->window.len = (size_t)read;
    at->begin = start;
  }
  *bytes = at->window.bytes + (start - at->begin);
  return FERRY_DONE;
}

static inline uint64_t number(const uint8_t *bytes, int len) {
  uint64_t value = 0;
  while (len-- > 0) value = value << 8 | bytes[len];
  return value;
}

/* Returns whether the bytes are valid UTF-8, as Arrow requires. A file with any other string is malformed. */
static inline int is_utf8(const uint8_t *at, size_t len) {
  const uint8_t *end = at + len;
  while (at < end) {
    uint8_t first = *at++;
    if (first < 0x80) continue;
    int more = first >= 0xc2 && first <= 0xdf ? 1 : first >= 0xe0 && first <= 0xef ? 2 : first >= 0xf0 && first <= 0xf4 ? 3 : 0;
    if (!more || end - at < more) return 0;
    /* Rejects overlong forms, surrogates, and values above U+10FFFF. */
    uint8_t least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80, most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (*at < least || *at > most) return 0;
    for (at++; --more; at++)
      if ((*at & 0xc0) != 0x80) return 0;
  }
  return 1;
}
#endif
