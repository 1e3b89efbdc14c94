/* A ferry plugin for tray, a format for rows. All numbers are little-endian:
 *
 *   0      m bytes   the magic: 0x89, "TRAY", 0x0d, 0x0a, 0x1a, 0x0a
 *   m      u16       number of columns, then for each:
 *                      u8       1 integers of 64 bits, 2 floats of 64 bits, 3 text
 *                      u8       b: bytes of the name
 *                      b bytes  the name in UTF-8, without a zero byte
 *   then             the rows, each:
 *                      u32      bytes of the row, except these four
 *                      for each column: u8, 0 null or 1 a value; if 1, eight bytes, or for text a u32 length and the bytes
 *
 * The magic bytes begin with a byte that is not text, so text files never match. They contain both kinds of line endings,
 * which reveal that a file was damaged by a text-mode transfer.
 */
#include "tray.h"

const char MAGIC[] = "\x89" "TRAY" "\r\n\x1a\n";

static const struct {
  uint8_t code;
  const char *format;
} KINDS[] = {{1, INTEGERS}, {2, FLOATS}, {3, TEXTS}};

const char *format_of(uint8_t code) {
  for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++)
    if (KINDS[i].code == code) return KINDS[i].format;
  return NULL;
}

uint8_t code_of(const char *format) {
  for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++)
    if (!strcmp(KINDS[i].format, format)) return KINDS[i].code;
  return 0;
}

void free_fields(Fields *fields) {
  for (size_t i = 0; i < fields->count; i++) free(fields->all[i].name);
  free(fields->all);
}

int add_field(Fields *fields, uint8_t code, const uint8_t *name, size_t len, int64_t place) {
  Field *more = realloc(fields->all, (fields->count + 1) * sizeof *more);
  if (!more) return 0;
  fields->all = more;
  Field *field = &more[fields->count];
  field->code = code;
  field->place = place;
  if (!(field->name = malloc(len + 1))) return 0;
  memcpy(field->name, name, len);
  field->name[len] = 0;
  fields->count++;
  return 1;
}

int has_field(const Fields *fields, const char *name, size_t len) {
  for (size_t i = 0; i < fields->count; i++)
    if (strlen(fields->all[i].name) == len && !memcmp(fields->all[i].name, name, len)) return 1;
  return 0;
}

/* ---- the format ---- */

static int32_t describe(void *self, FerryDescription description, FerryErrorSink err) {
  (void)self;
  FerryIdentity identity = {.size = sizeof identity, .id = text_of("tray"), .title = text_of("Tray rows"),
                            .capabilities = FERRY_READ_RECORDS | FERRY_WRITE_RECORDS};
  FerryMagic magic = {.size = sizeof magic, .bytes = {(const uint8_t *)MAGIC, MAGIC_LEN}};
  int32_t status = description.table->identity(description.self, &identity, err);
  if (!status) status = description.table->suffix(description.self, text_of(".tray"), err);
  return status ? status : description.table->magic(description.self, &magic, err);
}

static int32_t record_reader(void *self, FerryPairs options, FerryRecordReader *reader, FerryErrorSink err) {
  (void)self, (void)options, (void)err;
  reader->table = &READER;
  reader->self = NULL;
  return FERRY_DONE;
}

static int32_t record_writer(void *self, FerryPairs options, FerryRecordWriter *writer, FerryErrorSink err) {
  (void)self, (void)options, (void)err;
  writer->table = &WRITER;
  writer->self = NULL;
  return FERRY_DONE;
}

/* Functions that the plugin does not implement are null: a probe, because the magic bytes suffice, and tensors. */
static const FerryFormatTable FORMAT = {.size = sizeof FORMAT, .describe = describe,
                                        .record_reader = record_reader, .record_writer = record_writer};

static int32_t init(FerryHost host, FerryRegistrar registrar, FerryErrorSink err) {
  (void)host;
  FerryObject format = {(const FerryObjectTable *)&FORMAT, NULL};
  return registrar.table->add(registrar.self, text_of("format"), format, err);
}

__attribute__((visibility("default"))) const FerryManifest FERRY_PLUGIN = {
    .magic = FERRY_MAGIC, .size = sizeof FERRY_PLUGIN, .major = FERRY_MAJOR, .minor_built = FERRY_MINOR,
    .name = "ferry-plugin-tray", .version = "0.1.0", .sdk = "ferry_plugin.h 1.0", .init = init};
