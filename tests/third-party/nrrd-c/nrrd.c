/* NRRD, the "nearly raw raster data" of medical imaging (https://teem.sourceforge.net/nrrd/format.html), as a
 * format of ferry: one tensor with its metadata, attached and raw. Other encodings and detached headers are
 * told as unsupported.
 *
 *   NRRD0004
 *   type: float
 *   dimension: 2
 *   sizes: 3 2          the fastest axis first: a row-major shape of [2, 3]
 *   encoding: raw
 *   endian: little
 *   unit:=mm            metadata
 *                       an empty line, then the elements
 */
#include "ferry_plugin.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_HEADER 65536
#define MAX_RANK 16

typedef struct {
  const char *names; /* as NRRD spells it, the first when it is written */
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

static FerryText text_of(const char *text) {
  FerryText it = {(const uint8_t *)text, strlen(text)};
  return it;
}

/* Says why, and gives the status. */
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

/* Whether a word is one of those that bars separate. */
static int is_one_of(const char *word, const char *words) {
  size_t len = strlen(word);
  for (const char *at = words; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL)
    if (!strncmp(at, word, len) && (at[len] == '|' || !at[len])) return 1;
  return 0;
}

/* ---- the reader ---- */

/* What enters ferry as text must be UTF-8: what is not is the file's fault, and is told as such. */
static int is_utf8(const char *text) {
  const uint8_t *at = (const uint8_t *)text;
  while (*at) {
    uint8_t first = *at++;
    if (first < 0x80) continue;
    int more = first >= 0xc2 && first <= 0xdf ? 1 : first >= 0xe0 && first <= 0xef ? 2 : first >= 0xf0 && first <= 0xf4 ? 3 : 0;
    /* No longer form of a shorter one, no surrogate, nothing above U+10FFFF. */
    uint8_t least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80, most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (!more || *at < least || *at > most) return 0;
    for (at++; --more; at++)
      if ((*at & 0xc0) != 0x80) return 0;
  }
  return 1;
}

typedef struct {
  const Type *type;
  uint64_t rank;
  uint64_t shape[MAX_RANK];
  uint64_t sizes;
  int is_raw;
  uint32_t byte_order;
} Header;

static int32_t field(Header *header, char *key, char *value, FerryText file, FerryErrorSink err) {
  if (!strcmp(key, "type")) {
    for (size_t i = 0; i < TYPE_COUNT; i++)
      if (is_one_of(value, TYPES[i].names)) header->type = &TYPES[i];
    if (!header->type) return fail_found(err, FERRY_UNSUPPORTED, "a type that has no dtype", file, value);
  } else if (!strcmp(key, "dimension")) {
    header->rank = strtoull(value, NULL, 10);
    if (!header->rank || header->rank > MAX_RANK)
      return fail_found(err, FERRY_MALFORMED, "not a dimension of 1 to 16", file, value);
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
    if (!header->is_raw) return fail_found(err, FERRY_UNSUPPORTED, "only the encoding raw is read", file, value);
  } else if (!strcmp(key, "endian")) {
    header->byte_order = !strcmp(value, "big");
  } else if (!strcmp(key, "data file") || !strcmp(key, "datafile")) {
    return fail_found(err, FERRY_UNSUPPORTED, "the data is in another file, which is not read", file, value);
  } else if (!strcmp(key, "line skip") || !strcmp(key, "byte skip") || !strcmp(key, "lineskip") ||
             !strcmp(key, "byteskip")) {
    return fail_found(err, FERRY_UNSUPPORTED, "data that does not follow its header is not read", file, key);
  }
  return FERRY_DONE;
}

/* What the tensor does not hold of the header: origins, spacings and the like. */
static int32_t lose(FerryCatalogSink catalog, const char *key, FerryErrorSink err) {
  static const char *const CARRIED[] = {"type", "dimension", "sizes", "encoding", "endian"};
  for (size_t i = 0; i < sizeof CARRIED / sizeof *CARRIED; i++)
    if (!strcmp(key, CARRIED[i])) return FERRY_DONE;
  FerryLoss loss = {sizeof loss, text_of("metadata"), 0, 0, text_of(key), text_of("a field of NRRD's own")};
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
    if (!is_utf8(line)) return fail_found(err, FERRY_MALFORMED, "a line of the header that is not UTF-8", file, line);
    if (!colon) return fail_found(err, FERRY_MALFORMED, "a line of the header without a colon", file, line);
    *colon = 0;
    int32_t status;
    if (colon[1] == '=') {
      status = catalog.table->metadata(catalog.self, text_of(line), text_of(colon + 2), err);
    } else {
      char *value = colon + 1 + strspn(colon + 1, " \t");
      status = field(header, line, value, file, err);
      if (!status) status = lose(catalog, line, err);
    }
    if (status) return status;
  }
  if (!header->type || !header->is_raw || header->rank != header->sizes)
    return fail_found(err, FERRY_MALFORMED, "a header that is not whole", file, "no type, encoding or sizes");
  return FERRY_DONE;
}

static int32_t decode(void *self, FerrySource source, uint64_t handle, FerryByteSink output, FerryContext context,
                      FerryErrorSink err) {
  (void)self, (void)source, (void)handle, (void)output, (void)context;
  return fail(err, FERRY_PLUGIN_FAULT, "nothing is encoded");
}

static const FerryTensorDecoderTable DECODER = {sizeof DECODER, NULL, NULL, decode};

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
    if (strlen(text) == i) return FERRY_DONE;
    break;
  }
  return fail_found(err, FERRY_MALFORMED, "no header that ends within 64 KiB", name, "no empty line");
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
  return catalog.table->tensor(catalog.self, &tensor, &id, err);
}

static int32_t read(void *self, FerrySource source, FerryCatalogSink catalog, FerryContext context,
                    FerryTensorDecoder *decoder, FerryErrorSink err) {
  (void)self, (void)context;
  uint32_t kind, file;
  uint64_t len, end = 0;
  FerryText name, path;
  int32_t status = source.table->entry(source.self, &kind, &name, err);
  if (status) return status;
  if (kind != 0) return fail(err, FERRY_UNSUPPORTED, "a file in NRRD is named itself");
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
  free(text);
  if (!status) status = describe_data(catalog, &header, file, end, len - end, err);
  if (status) return status;
  decoder->table = &DECODER;
  decoder->self = NULL;
  return FERRY_DONE;
}

static const FerryTensorReaderTable READER = {sizeof READER, NULL, NULL, read};

/* ---- the writer ---- */

/* Keeps the name of a dtype. */
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
} Writing;

static int32_t put(Writing *writing, const char *text, size_t len, FerryErrorSink err) {
  uint64_t offset;
  FerryBytes bytes = {(const uint8_t *)text, len};
  return writing->layout.table->bytes(writing->layout.self, writing->file, bytes, &offset, err);
}

static int32_t put_pair(void *self, FerryText key, FerryText value, FerryErrorSink err) {
  Writing *writing = self;
  int is_line = key.len && key.ptr[0] != '#';
  for (size_t i = 0; i < key.len; i++) is_line &= key.ptr[i] != '\n' && key.ptr[i] != ':' && key.ptr[i] != '\r';
  for (size_t i = 0; i < value.len; i++) is_line &= value.ptr[i] != '\n' && value.ptr[i] != '\r';
  if (!is_line) {
    FerryLoss loss = {sizeof loss, text_of("metadata"), 0, 0, key, text_of("NRRD holds it in one line")};
    return writing->layout.table->loss(writing->layout.self, &loss, err);
  }
  int32_t status = put(writing, (const char *)key.ptr, key.len, err);
  if (!status) status = put(writing, ":=", 2, err);
  if (!status) status = put(writing, (const char *)value.ptr, value.len, err);
  return status ? status : put(writing, "\n", 1, err);
}

static const FerryPairSinkTable PAIRS = {sizeof PAIRS, NULL, NULL, put_pair};

/* Nothing is left to do when the bytes have moved. */
static int32_t stream(void *self, uint32_t file, FerryCatalogView view, FerryByteSink output, FerryErrorSink err) {
  (void)self, (void)file, (void)view, (void)output;
  return fail(err, FERRY_PLUGIN_FAULT, "no file is streamed");
}

static int32_t seal(void *self, FerryDigests digests, FerrySealSink output, FerryErrorSink err) {
  (void)self, (void)digests, (void)output, (void)err;
  return FERRY_DONE;
}

static const FerryTensorPlanTable PLAN = {sizeof PLAN, NULL, NULL, stream, seal};

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
      status = layout.table->omit(layout.self, id, text_of("a file in NRRD holds one tensor of 1 to 16 dimensions"), err);
    }
  }
  if (status) return status;
  if (kept == UINT32_MAX) return fail(err, FERRY_UNSUPPORTED, "no tensor that NRRD can hold");
  if (name.len != 4 || memcmp(name.ptr, "data", 4)) {
    FerryLoss loss = {sizeof loss, text_of("name"), 0, 0, name, text_of("NRRD has no names: it will be read as \"data\"")};
    if ((status = layout.table->loss(layout.self, &loss, err))) return status;
  }
  FerryOutputFile file = {.size = sizeof file, .path = target_kind == 0 ? target_name : text_of("data.nrrd")};
  Writing writing = {layout, 0};
  if ((status = layout.table->file(layout.self, &file, &writing.file, err))) return status;

  char text[1024];
  size_t words = strcspn(type->names, "|");
  int len = snprintf(text, sizeof text, "NRRD0004\ntype: %.*s\ndimension: %zu\nsizes:", (int)words, type->names, shape.len);
  for (size_t axis = shape.len; axis-- > 0;)
    len += snprintf(text + len, sizeof text - (size_t)len, " %llu", (unsigned long long)shape.ptr[axis]);
  len += snprintf(text + len, sizeof text - (size_t)len, "\nencoding: raw\nendian: little\n");
  if ((status = put(&writing, text, (size_t)len, err))) return status;
  FerryPairSink pairs = {&PAIRS, &writing};
  if ((status = view.table->metadata(view.self, pairs, err))) return status;
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
  /* The version is a digit of 1 to 5: the mask lets the digits through that begin as '0' does. */
  static const uint8_t NRRD[] = {'N', 'R', 'R', 'D', '0', '0', '0', '0'};
  static const uint8_t MASK[] = {255, 255, 255, 255, 255, 255, 255, 0xf8};
  FerryIdentity identity = {sizeof identity, text_of("nrrd"), text_of("NRRD, nearly raw raster data"),
                            FERRY_READ | FERRY_WRITE | FERRY_KEEPS_METADATA, 0};
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

/* What is null is not offered: it has no probe, as its magic decides, and no records. */
static const FerryFormatTable FORMAT = {.size = sizeof FORMAT, .describe = describe,
                                        .tensor_reader = tensor_reader, .tensor_writer = tensor_writer};

static int32_t init(FerryHost host, FerryRegistrar registrar, FerryErrorSink err) {
  (void)host;
  FerryObject format = {(const FerryObjectTable *)&FORMAT, NULL};
  return registrar.table->add(registrar.self, text_of("format"), format, err);
}

__attribute__((visibility("default"))) const FerryManifest FERRY_PLUGIN = {
    .magic = FERRY_MAGIC, .size = sizeof FERRY_PLUGIN, .major = FERRY_MAJOR, .minor_built = FERRY_MINOR,
    .name = "ferry-plugin-nrrd", .version = "0.1.0", .sdk = "ferry_plugin.h 1.0", .init = init};
