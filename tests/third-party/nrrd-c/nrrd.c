/* NRRD, the "nearly raw raster data" of medical imaging (https://teem.sourceforge.net/nrrd/format.html), as a
 * ferry format: one tensor with its metadata, with an attached header and raw data. Other encodings and
 * detached headers are unsupported.
 *
 *   NRRD0004
 *   type: float
 *   dimension: 2
 *   sizes: 3 2          fastest axis first: a row-major shape of [2, 3]
 *   encoding: raw
 *   endian: little
 *   spacings: 1 0.5     an attribute of the tensor, like all fields in FIELDS
 *   unit:=mm            metadata
 *                       an empty line, then the elements
 */
#include "ferry_plugin.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_HEADER 65536
#define MAX_RANK 16
#define MAX_ATTRIBUTES 64

typedef struct {
  const char *names; /* the spellings in NRRD; the first one is written */
  const char *dtype;
  uint32_t bytes;
} Type;

static const Type TYPES[] = {
    {"int8|signed char|int8_t", "I8", 1},
    {"uint8|uchar|unsigned char|uint8_t", "U8", 1},
    {"int16|short|short int|signed short|signed short int|int16_t", "I16", 2},
    {"uint16|ushort|unsigned short|unsigned short int|uint16_t", "U16", 2},
    {"int32|int|signed int|int32_t", "I32", 4},
    {"uint32|uint|unsigned int|uint32_t", "U32", 4},
    {"int64|longlong|long long|long long int|signed long long|signed long long int|int64_t", "I64", 8},
    {"uint64|ulonglong|unsigned long long|unsigned long long int|uint64_t", "U64", 8},
    {"float", "F32", 4},
    {"double", "F64", 8},
};
#define TYPE_COUNT (sizeof TYPES / sizeof *TYPES)

/* Fields that become attributes. Fields with one number per axis become F64, in the order of the tensor's shape, slowest
 * axis first. All other fields become text. */
typedef struct {
  const char *name;
  int is_numbers;
} Field;

static const Field FIELDS[] = {
    {"spacings", 1},     {"thicknesses", 1},      {"axis mins", 1},   {"axis maxs", 1}, {"centers", 0},
    {"kinds", 0},        {"labels", 0},           {"units", 0},       {"space", 0},     {"space dimension", 0},
    {"space origin", 0}, {"space directions", 0}, {"space units", 0}, {"content", 0},   {"measurement frame", 0},
    {"sample units", 0}, {"min", 0},              {"max", 0},         {"old min", 0},   {"old max", 0},
};

static const Field *field_named(const uint8_t *name, size_t len) {
  for (size_t i = 0; i < sizeof FIELDS / sizeof *FIELDS; i++)
    if (strlen(FIELDS[i].name) == len && !memcmp(FIELDS[i].name, name, len)) return &FIELDS[i];
  return NULL;
}

static FerryText text_of(const char *text) {
  FerryText it = {(const uint8_t *)text, strlen(text)};
  return it;
}

/* Reports the message to the host, and returns the status. */
static int32_t fail(FerryErrorSink err, int32_t status, const char *message) {
  if (FERRY_HAS(err, message)) err.table->message(err.self, text_of(message));
  return status;
}

static int32_t fail_found(FerryErrorSink err, int32_t status, const char *message, FerryText file, const char *found) {
  fail(err, status, message);
  if (FERRY_HAS(err, detail)) {
    err.table->detail(err.self, text_of("file"), file);
    err.table->detail(err.self, text_of("found"), text_of(found));
  }
  return status;
}

/* Reports whether a word is in a list whose items are separated by bars. */
static int is_one_of(const char *word, const char *words) {
  size_t len = strlen(word);
  for (const char *at = words; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL)
    if (!strncmp(at, word, len) && (at[len] == '|' || !at[len])) return 1;
  return 0;
}

/* ---- the reader ---- */

typedef struct {
  const Type *type;
  uint64_t rank;
  uint64_t shape[MAX_RANK];
  uint64_t sizes;
  int is_raw;
  uint32_t byte_order;
  /* Pointers into the text of the header. */
  struct {
    const Field *field;
    const char *value;
  } attributes[MAX_ATTRIBUTES];
  size_t attribute_count;
} Header;

static int32_t field(Header *header, char *key, char *value, FerryText file, FerryErrorSink err) {
  if (!strcmp(key, "type")) {
    for (size_t i = 0; i < TYPE_COUNT; i++)
      if (is_one_of(value, TYPES[i].names)) header->type = &TYPES[i];
    if (!header->type) return fail_found(err, FERRY_UNSUPPORTED, "unsupported type", file, value);
  } else if (!strcmp(key, "dimension")) {
    header->rank = strtoull(value, NULL, 10);
    if (!header->rank || header->rank > MAX_RANK)
      return fail_found(err, FERRY_MALFORMED, "the dimension is not from 1 to 16", file, value);
  } else if (!strcmp(key, "sizes")) {
    char *at = value, *end;
    for (header->sizes = 0; *at; at = end) {
      uint64_t size = strtoull(at, &end, 10);
      if (end == at) break;
      if (header->sizes == MAX_RANK) return fail_found(err, FERRY_MALFORMED, "too many sizes", file, value);
      header->shape[header->sizes++] = size;
    }
  } else if (!strcmp(key, "encoding")) {
    header->is_raw = !strcmp(value, "raw");
    if (!header->is_raw) return fail_found(err, FERRY_UNSUPPORTED, "only the encoding raw is supported", file, value);
  } else if (!strcmp(key, "endian")) {
    header->byte_order = !strcmp(value, "big");
  } else if (!strcmp(key, "data file") || !strcmp(key, "datafile")) {
    return fail_found(err, FERRY_UNSUPPORTED, "data in a separate file is not supported", file, value);
  } else if (!strcmp(key, "line skip") || !strcmp(key, "byte skip") || !strcmp(key, "lineskip") ||
             !strcmp(key, "byteskip")) {
    return fail_found(err, FERRY_UNSUPPORTED, "data that does not follow its header is not supported", file, key);
  }
  return FERRY_DONE;
}

/* Adds a value that consists of a single node to the catalog. */
static int32_t value_of(FerryCatalogSink catalog, uint32_t kind, const char *class_name, const void *bytes, size_t len,
                        uint32_t *value, FerryErrorSink err) {
  FerryNode node = {.size = sizeof node, .kind = kind, .class_name = text_of(class_name), .bytes = {bytes, len}};
  return catalog.table->value(catalog.self, &node, value, err);
}

/* Parses one number per axis. Fails if the text has other contents, so that the attribute remains text. */
static int numbers_of(const char *text, uint64_t rank, double *numbers) {
  char *end;
  for (uint64_t axis = rank; axis-- > 0; text = end) {
    numbers[axis] = strtod(text, &end);
    if (end == text) return 0;
  }
  return !text[strspn(text, " \t")];
}

static int32_t describe_attributes(FerryCatalogSink catalog, const Header *header, uint32_t tensor, FerryErrorSink err) {
  for (size_t i = 0; i < header->attribute_count; i++) {
    const Field *field = header->attributes[i].field;
    const char *text = header->attributes[i].value;
    double numbers[MAX_RANK];
    uint32_t value;
    int32_t status = field->is_numbers && numbers_of(text, header->rank, numbers)
                         ? value_of(catalog, FERRY_NUMBERS, "F64", numbers, header->rank * sizeof *numbers, &value, err)
                         : value_of(catalog, FERRY_TEXT, "", text, strlen(text), &value, err);
    if (!status) status = catalog.table->attribute(catalog.self, tensor, text_of(field->name), value, err);
    if (status) return status;
  }
  return FERRY_DONE;
}

/* Stores an attribute until the tensor is described. Reports a loss for a field that cannot be represented. */
static int32_t keep_or_lose(Header *header, FerryCatalogSink catalog, const char *key, const char *value, FerryErrorSink err) {
  static const char *const CARRIED[] = {"type", "dimension", "sizes", "encoding", "endian"};
  for (size_t i = 0; i < sizeof CARRIED / sizeof *CARRIED; i++)
    if (!strcmp(key, CARRIED[i])) return FERRY_DONE;
  const Field *field = field_named((const uint8_t *)key, strlen(key));
  if (field && header->attribute_count < MAX_ATTRIBUTES) {
    header->attributes[header->attribute_count].field = field;
    header->attributes[header->attribute_count++].value = value;
    return FERRY_DONE;
  }
  FerryLoss loss = {sizeof loss, text_of("metadata"), 0, 0, text_of(key), text_of("a field that only NRRD has")};
  return catalog.table->loss(catalog.self, &loss, err);
}

static int32_t parse(char *at, FerryText file, FerryCatalogSink catalog, Header *header, FerryErrorSink err) {
  while (*at) {
    char *line = at, *end = strchr(at, '\n');
    if (end) {
      *end = 0;
      at = end + 1;
      if (end > line && end[-1] == '\r') end[-1] = 0;
    } else {
      at += strlen(at);
    }
    char *colon = strchr(line, ':');
    if (*line == '#' || !*line) continue;
    if (!colon) return fail_found(err, FERRY_MALFORMED, "a header line without a colon", file, line);
    *colon = 0;
    int32_t status;
    if (colon[1] == '=') {
      uint32_t text;
      status = value_of(catalog, FERRY_TEXT, "", colon + 2, strlen(colon + 2), &text, err);
      if (!status) status = catalog.table->metadata(catalog.self, text_of(line), text, err);
    } else {
      char *value = colon + 1 + strspn(colon + 1, " \t");
      status = field(header, line, value, file, err);
      if (!status) status = keep_or_lose(header, catalog, line, value, err);
    }
    if (status) return status;
  }
  if (!header->type || !header->is_raw || header->rank != header->sizes)
    return fail_found(err, FERRY_MALFORMED, "the header is incomplete", file, "no type, encoding or sizes");
  return FERRY_DONE;
}

static int32_t decode(void *self, FerrySource source, uint64_t handle, FerryByteSink output, FerryContext context,
                      FerryErrorSink err) {
  (void)self, (void)source, (void)handle, (void)output, (void)context;
  return fail(err, FERRY_PLUGIN_FAULT, "nothing is encoded");
}

static const FerryTensorDecoderTable DECODER = {sizeof DECODER, NULL, NULL, decode};

/* Text that crosses the boundary must be UTF-8. */
static int is_utf8(const uint8_t *at, const uint8_t *end) {
  while (at < end) {
    size_t more = *at < 0x80 ? 0 : *at >= 0xc2 && *at < 0xe0 ? 1 : (*at & 0xf0) == 0xe0 ? 2 : *at >= 0xf0 && *at < 0xf5 ? 3 : 4;
    if (more > 3 || (size_t)(end - at) <= more) return 0;
    /* Overlong forms, surrogates and code points above U+10FFFF are invalid. */
    if ((*at == 0xe0 && at[1] < 0xa0) || (*at == 0xed && at[1] >= 0xa0) || (*at == 0xf0 && at[1] < 0x90) ||
        (*at == 0xf4 && at[1] >= 0x90))
      return 0;
    for (at++; more; more--, at++)
      if ((*at & 0xc0) != 0x80) return 0;
  }
  return 1;
}

static int32_t read_header(FerrySource source, uint32_t file, uint64_t len, FerryText name, char *text, uint64_t *end,
                           FerryErrorSink err) {
  uint64_t most = len < MAX_HEADER ? len : MAX_HEADER;
  FerryBytesMut buffer = {(uint8_t *)text, (size_t)most};
  int32_t status = source.table->read_at(source.self, file, 0, buffer, err);
  if (status) return status;
  for (uint64_t i = 0; i + 1 < most; i++) {
    int is_end = text[i] == '\n' && (text[i + 1] == '\n' || (i + 2 < most && text[i + 1] == '\r' && text[i + 2] == '\n'));
    if (!is_end) continue;
    *end = i + (text[i + 1] == '\n' ? 2 : 3);
    text[i] = 0;
    if (!is_utf8((const uint8_t *)text, (const uint8_t *)text + i))
      return fail_found(err, FERRY_MALFORMED, "the header is not UTF-8", name, "other bytes");
    if (strlen(text) == i) return FERRY_DONE;
    break;
  }
  return fail_found(err, FERRY_MALFORMED, "the header does not end within 64 KiB", name, "no empty line");
}

static int32_t describe_data(FerryCatalogSink catalog, const Header *header, uint32_t file, uint64_t offset,
                             uint64_t len, FerryErrorSink err) {
  uint64_t shape[MAX_RANK];
  uint32_t dtype, storage, id;
  for (uint64_t axis = 0; axis < header->rank; axis++) shape[axis] = header->shape[header->rank - 1 - axis];
  FerryDtype facts = {sizeof facts, text_of(header->type->dtype), 1, header->type->bytes, header->type->bytes};
  int32_t status = catalog.table->dtype(catalog.self, &facts, &dtype, err);
  if (status) return status;
  FerryStorage bytes = {.size = sizeof bytes, .byte_order = header->byte_order, .file = file, .offset = offset, .len = len};
  if ((status = catalog.table->storage(catalog.self, &bytes, &storage, err))) return status;
  FerryTensor tensor = {.size = sizeof tensor, .name = text_of("data"), .dtype = dtype,
                        .shape = {shape, (size_t)header->rank}, .storage = storage};
  if ((status = catalog.table->tensor(catalog.self, &tensor, &id, err))) return status;
  return describe_attributes(catalog, header, id, err);
}

static int32_t read(void *self, FerrySource source, FerryCatalogSink catalog, FerryContext context,
                    FerryTensorDecoder *decoder, FerryErrorSink err) {
  (void)self, (void)context;
  uint32_t kind, file;
  uint64_t len, end = 0;
  FerryText name, path;
  int32_t status = source.table->entry(source.self, &kind, &name, err);
  if (status) return status;
  if (kind != 0) return fail(err, FERRY_UNSUPPORTED, "the input is not a single file");
  if ((status = source.table->open(source.self, name, &file, err))) return status;
  if ((status = source.table->info(source.self, file, &len, &path, err))) return status;
  char *text = malloc(MAX_HEADER + 1);
  if (!text) return fail(err, FERRY_PLUGIN_FAULT, "no memory");
  Header header = {0};
  status = read_header(source, file, len, path, text, &end, err);
  if (!status && strncmp(text, "NRRD000", 7)) status = fail_found(err, FERRY_MALFORMED, "not NRRD", path, "no NRRD000");
  if (!status) {
    char *first = strchr(text, '\n');
    status = parse(first ? first + 1 : "", path, catalog, &header, err);
  }
  if (!status) status = describe_data(catalog, &header, file, end, len - end, err);
  free(text);
  if (status) return status;
  decoder->table = &DECODER;
  decoder->self = NULL;
  return FERRY_DONE;
}

static const FerryTensorReaderTable READER = {sizeof READER, NULL, NULL, read};

/* ---- the writer ---- */

/* Stores the name of a dtype. */
static int32_t keep_name(void *self, FerryText name, FerryErrorSink err) {
  (void)err;
  snprintf(self, 65, "%.*s", (int)(name.len < 64 ? name.len : 64), (const char *)name.ptr);
  return FERRY_DONE;
}

static const FerryNameSinkTable NAME = {sizeof NAME, NULL, NULL, keep_name};

static int32_t type_of(FerryCatalogView view, uint32_t dtype, const Type **type, FerryErrorSink err) {
  char name[65] = "";
  uint32_t elements, bytes, swap;
  FerryNameSink sink = {&NAME, name};
  int32_t status = view.table->dtype(view.self, dtype, sink, &elements, &bytes, &swap, err);
  *type = NULL;
  for (size_t i = 0; i < TYPE_COUNT; i++)
    if (!strcmp(name, TYPES[i].dtype)) *type = &TYPES[i];
  return status;
}

typedef struct {
  FerryLayoutSink layout;
  uint32_t file;
  size_t rank;
  /* Whether entries are attributes instead of metadata. */
  int is_attribute;
  /* The last node, which is the root of a value. NRRD supports text and numbers per axis. */
  uint32_t kind, count;
  char *text;
  size_t len;
  double numbers[MAX_RANK];
  size_t number_count;
} Writing;

static int32_t put(Writing *writing, const char *text, size_t len, FerryErrorSink err) {
  uint64_t offset;
  FerryBytes bytes = {(const uint8_t *)text, len};
  return writing->layout.table->bytes(writing->layout.self, writing->file, bytes, &offset, err);
}

static int32_t keep_node(void *self, const FerryNode *node, uint32_t *id, FerryErrorSink err) {
  Writing *writing = self;
  char *text = realloc(writing->text, node->bytes.len + 1);
  if (!text) return fail(err, FERRY_PLUGIN_FAULT, "no memory");
  writing->text = text;
  if (node->bytes.len) memcpy(text, node->bytes.ptr, node->bytes.len);
  writing->len = node->bytes.len;
  writing->kind = node->kind;
  writing->number_count = 0;
  int is_f64 = node->class_name.len == 3 && !memcmp(node->class_name.ptr, "F64", 3);
  if (node->kind == FERRY_NUMBERS && is_f64 && node->bytes.len <= sizeof writing->numbers && node->bytes.len) {
    writing->number_count = node->bytes.len / sizeof(double);
    memcpy(writing->numbers, node->bytes.ptr, node->bytes.len);
  }
  *id = writing->count++;
  return FERRY_DONE;
}

static int is_line(const char *text, size_t len) {
  for (size_t i = 0; i < len; i++)
    if (text[i] == '\n' || text[i] == '\r') return 0;
  return !memchr(text, 0, len);
}

/* Reports whether the value can follow the colon of a field. */
static int is_field(const Writing *writing, const Field *field) {
  if (!field) return 0;
  if (writing->kind == FERRY_NUMBERS) return field->is_numbers && writing->number_count == writing->rank;
  int begins = writing->len && writing->text[0] != ' ' && writing->text[0] != '\t';
  double numbers[MAX_RANK];
  if (writing->kind != FERRY_TEXT || !begins || !is_line(writing->text, writing->len)) return 0;
  /* Text that looks like numbers would be read as numbers. */
  writing->text[writing->len] = 0;
  return !(field->is_numbers && numbers_of(writing->text, writing->rank, numbers));
}

static int32_t put_entry(void *self, FerryText key, uint32_t value, FerryErrorSink err) {
  (void)value;
  Writing *writing = self;
  int is_attribute = writing->is_attribute;
  int is_key = key.len && key.ptr[0] != '#' && is_line((const char *)key.ptr, key.len) && !memchr(key.ptr, ':', key.len);
  int is_held = is_attribute ? is_field(writing, field_named(key.ptr, key.len))
                             : is_key && writing->kind == FERRY_TEXT && is_line(writing->text, writing->len);
  if (!is_held) {
    FerryText why = text_of(is_attribute ? "NRRD has no field for it" : "NRRD holds only text in one line");
    FerryLoss loss = {sizeof loss, text_of(is_attribute ? "attribute" : "metadata"), 0, 0, key, why};
    return writing->layout.table->loss(writing->layout.self, &loss, err);
  }
  int32_t status = put(writing, (const char *)key.ptr, key.len, err);
  if (!status) status = put(writing, is_attribute ? ":" : ":=", is_attribute ? 1 : 2, err);
  if (is_attribute && writing->kind == FERRY_NUMBERS) {
    for (size_t axis = writing->rank; !status && axis-- > 0;) {
      char number[40];
      int len = snprintf(number, sizeof number, " %.17g", writing->numbers[axis]);
      status = put(writing, number, (size_t)len, err);
    }
  } else {
    if (!status && is_attribute) status = put(writing, " ", 1, err);
    if (!status) status = put(writing, writing->text, writing->len, err);
  }
  return status ? status : put(writing, "\n", 1, err);
}

static const FerryValueSinkTable VALUES = {sizeof VALUES, NULL, NULL, keep_node, put_entry};

/* Writes the attributes of the tensor, then the metadata. */
static int32_t put_values(FerryCatalogView view, uint32_t tensor, Writing *writing, FerryErrorSink err) {
  FerryValueSink sink = {&VALUES, writing};
  writing->is_attribute = 1;
  int32_t status = view.table->attributes(view.self, tensor, sink, err);
  writing->is_attribute = 0;
  if (!status) status = view.table->metadata(view.self, sink, err);
  free(writing->text);
  return status;
}

/* The host copies all bytes and never calls this function. */
static int32_t stream(void *self, uint32_t file, FerryCatalogView view, FerryByteSink output, FerryContext context,
                      FerryErrorSink err) {
  (void)self, (void)file, (void)view, (void)output, (void)context;
  return fail(err, FERRY_PLUGIN_FAULT, "NRRD streams no files");
}

static int32_t seal(void *self, FerryDigests digests, FerrySealSink output, FerryContext context, FerryErrorSink err) {
  (void)self, (void)digests, (void)output, (void)context, (void)err;
  return FERRY_DONE;
}

static const FerryTensorPlanTable PLAN = {.size = sizeof PLAN, .stream = stream, .seal = seal};

static int32_t plan(void *self, FerryCatalogView view, uint32_t target_kind, FerryText target_name,
                    FerryLayoutSink layout, FerryContext context, FerryTensorPlan *out, FerryErrorSink err) {
  (void)self, (void)context;
  uint32_t tensors, storages, root, dtype, tied, kept = UINT32_MAX;
  uint64_t bytes, offset;
  FerryText name = {0};
  FerryNumbers shape = {0};
  const Type *type = NULL;
  int32_t status = view.table->counts(view.self, &tensors, &storages, &root, err);
  for (uint32_t id = 0; !status && id < tensors; id++) {
    const Type *found;
    FerryNumbers dims;
    FerryText called;
    if ((status = view.table->tensor(view.self, id, &called, &dtype, &dims, &bytes, &tied, err))) return status;
    if ((status = type_of(view, dtype, &found, err))) return status;
    if (kept == UINT32_MAX && found && dims.len >= 1 && dims.len <= MAX_RANK) {
      kept = id, type = found, shape = dims, name = called;
    } else {
      status = layout.table->omit(layout.self, id, text_of("an NRRD file holds one tensor of 1 to 16 dimensions"), err);
    }
  }
  if (status) return status;
  if (kept == UINT32_MAX) return fail(err, FERRY_UNSUPPORTED, "NRRD can hold none of the tensors");
  if (name.len != 4 || memcmp(name.ptr, "data", 4)) {
    FerryLoss loss = {sizeof loss, text_of("name"), 0, 0, name, text_of("NRRD has no names: it will be read as \"data\"")};
    if ((status = layout.table->loss(layout.self, &loss, err))) return status;
  }
  FerryOutputFile file = {.size = sizeof file, .path = target_kind == 0 ? target_name : text_of("data.nrrd")};
  Writing writing = {.layout = layout, .rank = shape.len};
  if ((status = layout.table->file(layout.self, &file, &writing.file, err))) return status;

  char text[1024];
  size_t words = strcspn(type->names, "|");
  int len = snprintf(text, sizeof text, "NRRD0004\ntype: %.*s\ndimension: %zu\nsizes:", (int)words, type->names, shape.len);
  for (size_t axis = shape.len; axis-- > 0;)
    len += snprintf(text + len, sizeof text - (size_t)len, " %llu", (unsigned long long)shape.ptr[axis]);
  len += snprintf(text + len, sizeof text - (size_t)len, "\nencoding: raw\nendian: little\n");
  if ((status = put(&writing, text, (size_t)len, err))) return status;
  if ((status = put_values(view, kept, &writing, err))) return status;
  if ((status = put(&writing, "\n", 1, err))) return status;
  FerryTensorPart part = {.size = sizeof part, .file = writing.file, .tensor = kept};
  if ((status = layout.table->tensor(layout.self, &part, &offset, err))) return status;
  out->table = &PLAN;
  out->self = NULL;
  return FERRY_DONE;
}

static const FerryTensorWriterTable WRITER = {sizeof WRITER, NULL, NULL, plan};

/* ---- the format ---- */

static int32_t describe(void *self, FerryDescription description, FerryErrorSink err) {
  (void)self;
  /* The version is a digit from 1 to 5. The mask accepts all digits with the same high bits as '0'. */
  static const uint8_t NRRD[] = {'N', 'R', 'R', 'D', '0', '0', '0', '0'};
  static const uint8_t MASK[] = {255, 255, 255, 255, 255, 255, 255, 0xf8};
  FerryIdentity identity = {sizeof identity, text_of("nrrd"), text_of("NRRD, nearly raw raster data"),
                            FERRY_READ | FERRY_WRITE | FERRY_KEEPS_METADATA | FERRY_KEEPS_ATTRIBUTES, 0};
  FerryMagic magic = {.size = sizeof magic, .bytes = {NRRD, sizeof NRRD}, .mask = {MASK, sizeof MASK}};
  int32_t status = description.table->identity(description.self, &identity, err);
  if (!status) status = description.table->suffix(description.self, text_of(".nrrd"), err);
  if (!status) status = description.table->magic(description.self, &magic, err);
  if (!status && FERRY_HAS(description, attribute))
    status = description.table->attribute(description.self, text_of("specification"),
                                          text_of("https://teem.sourceforge.net/nrrd/format.html"), err);
  return status;
}

static int32_t tensor_reader(void *self, FerryPairs options, FerryTensorReader *reader, FerryErrorSink err) {
  (void)self, (void)options, (void)err;
  reader->table = &READER;
  reader->self = NULL;
  return FERRY_DONE;
}

static int32_t tensor_writer(void *self, FerryPairs options, FerryTensorWriter *writer, FerryErrorSink err) {
  (void)self, (void)options, (void)err;
  writer->table = &WRITER;
  writer->self = NULL;
  return FERRY_DONE;
}

/* A null function means that the format does not support it. This format has no probe, because its magic identifies it,
 * and no records. */
static const FerryFormatTable FORMAT = {.size = sizeof FORMAT, .describe = describe,
                                        .tensor_reader = tensor_reader, .tensor_writer = tensor_writer};

/* The revision that this plugin was built for. With a host of an older revision, it uses no additions since 1.0. */
#ifndef NRRD_MINOR
#define NRRD_MINOR FERRY_MINOR
#endif

static int32_t init(FerryHost host, FerryRegistrar registrar, FerryErrorSink err) {
  uint32_t major = 0, minor = 0, built_for = NRRD_MINOR;
  int32_t status = host.table->revision(host.self, &major, &minor, err);
  if (!status && minor < built_for) {
    char line[96];
    snprintf(line, sizeof line, "built for revision %u.%u, and this ferry has %u.%u", (unsigned)FERRY_MAJOR,
             (unsigned)built_for, (unsigned)major, (unsigned)minor);
    status = host.table->log(host.self, 2, text_of(line), err);
  }
  if (status) return status;
  FerryObject format = {(const FerryObjectTable *)&FORMAT, NULL};
  return registrar.table->add(registrar.self, text_of("format"), format, err);
}

__attribute__((visibility("default"))) const FerryManifest FERRY_PLUGIN = {
    .magic = FERRY_MAGIC, .size = sizeof FERRY_PLUGIN, .major = FERRY_MAJOR, .minor_built = NRRD_MINOR,
    .name = "ferry-plugin-nrrd", .version = "0.1.0", .sdk = "ferry_plugin.h 1.0", .init = init};
