/* Declarations that all parts of the plugin use: the columns of a file, and reports of failures. */
#ifndef TRAY_H
#define TRAY_H
#include "ferry_plugin.h"

#include "columns.h"

extern const char MAGIC[];
#define MAGIC_LEN (sizeof "\x89" "TRAY" "\r\n\x1a\n" - 1)

/* A column of a file, and its index among the columns of the written rows. */
typedef struct {
  char *name;
  uint8_t code;
  int64_t place;
} Field;

typedef struct {
  Field *all;
  size_t count;
} Fields;

/* Returns the Arrow format for the code of a kind, or null if the code is unknown. */
const char *format_of(uint8_t code);
/* Returns the code for an Arrow format, or 0 if a tray cannot store such a column. */
uint8_t code_of(const char *format);
void free_fields(Fields *fields);
/* Returns 0 if memory ran out. */
int add_field(Fields *fields, uint8_t code, const uint8_t *name, size_t len, int64_t place);
int has_field(const Fields *fields, const char *name, size_t len);

extern const FerryRecordReaderTable READER;
extern const FerryRecordWriterTable WRITER;

static inline FerryText text_of(const char *text) {
  FerryText it = {(const uint8_t *)text, strlen(text)};
  return it;
}

/* Reports the reason for a failed call, and returns the status of the call. */
static inline int32_t fail(FerryErrorSink err, int32_t status, const char *message) {
  if (FERRY_HAS(err, message)) err.table->message(err.self, text_of(message));
  return status;
}

/* Adds a detail about the location of the failure: `file`, `column` or `offset`. */
static inline void add_detail(FerryErrorSink err, const char *name, const char *value) {
  if (FERRY_HAS(err, detail)) err.table->detail(err.self, text_of(name), text_of(value));
}
#endif
