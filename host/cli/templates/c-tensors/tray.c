/* A ferry plugin for tray, a format for tensors. All numbers are little-endian:
 *
 *   0      m bytes   the magic: 0x89, "TRAY", 0x0d, 0x0a, 0x1a, 0x0a
 *   m      u32       number of tensors
 *   m + 4  u32       h: bytes of the entries
 *   m + 8  h bytes   the entries, one for each tensor:
 *                      u8       the dtype's code
 *                      u8       r: number of dimensions
 *                      u16      b: bytes of the name
 *                      r * u64  the shape
 *                      b bytes  the name in UTF-8
 *   then             the tensors' elements, in the order of the entries, row-major, without gaps, up to the end of the file
 *
 * The magic bytes begin with a byte that is not text, so text files never match. They contain both kinds of line endings,
 * which reveal that a file was damaged by a text-mode transfer.
 */
#include "ferry_plugin.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char MAGIC[] = "\x89" "TRAY" "\r\n\x1a\n";
#define MAGIC_LEN (sizeof MAGIC - 1)
#define HEAD_LEN (MAGIC_LEN + 8)
#define MAX_RANK 255

/* The dtypes of tensors with their codes. A code is never reused for a different dtype. */
static const struct {
  uint8_t code;
  const char *name;
  uint32_t bytes;
} DTYPES[] = {
    {1, "BOOL", 1}, {2, "U8", 1},   {3, "I8", 1},   {4, "U16", 2},   {5, "I16", 2},  {6, "U32", 4},  {7, "I32", 4},
    {8, "U64", 8},  {9, "I64", 8},  {10, "F16", 2}, {11, "BF16", 2}, {12, "F32", 4}, {13, "F64", 8},
};
#define DTYPE_COUNT (sizeof DTYPES / sizeof *DTYPES)

static FerryText text_of(const char *text) {
  FerryText it = {(const uint8_t *)text, strlen(text)};
  return it;
}

/* Reports the reason for a failed call, and returns the status of the call. */
static int32_t fail(FerryErrorSink err, int32_t status, const char *message) {
  if (FERRY_HAS(err, message)) err.table->message(err.self, text_of(message));
  return status;
}

/* ---- the reader, which describes where the bytes of tensors are ---- */

/* The bytes of a part of the file that have not been parsed yet. The part is in memory. */
typedef struct {
  const uint8_t *at;
  uint64_t left;
  uint64_t offset; /* of `at` in the file */
  FerryText path;
  FerryErrorSink err;
} Bytes;

/* Reports that the file is malformed at the position of `bytes`. */
static int32_t malformed(const Bytes *bytes, const char *message) {
  char offset[24];
  snprintf(offset, sizeof offset, "%llu", (unsigned long long)bytes->offset);
  fail(bytes->err, FERRY_MALFORMED, message);
  if (FERRY_HAS(bytes->err, detail)) {
    bytes->err.table->detail(bytes->err.self, text_of("file"), bytes->path);
    bytes->err.table->detail(bytes->err.self, text_of("offset"), text_of(offset));
  }
  return FERRY_MALFORMED;
}

/* Returns the next `len` bytes, or null if fewer bytes remain. */
static const uint8_t *take(Bytes *bytes, uint64_t len) {
  if (len > bytes->left) return NULL;
  const uint8_t *taken = bytes->at;
  bytes->at += len;
  bytes->left -= len;
  bytes->offset += len;
  return taken;
}

static uint64_t number(const uint8_t *bytes, int len) {
  uint64_t value = 0;
  while (len-- > 0) value = value << 8 | bytes[len];
  return value;
}

/* Returns whether the bytes are valid UTF-8, as ferry requires. A file with any other name is malformed. */
static int is_utf8(const uint8_t *at, size_t len) {
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

/* Reads a part of the file into memory. Lengths that the file claims are checked against its size and the limits before
 * anything is allocated. */
static int32_t load(FerrySource source, uint32_t file, FerryContext context, uint64_t len, uint64_t file_len, Bytes *bytes,
                    uint8_t **memory) {
  uint64_t most = 0;
  int32_t status = context.table->limit(context.self, text_of("header_bytes"), &most, bytes->err);
  if (status) return status;
  if (bytes->offset > file_len || len > file_len - bytes->offset) return malformed(bytes, "the file ends too early");
  if (len > most) return fail(bytes->err, FERRY_LIMIT, "the entries are longer than the limit header_bytes");
  if (!(*memory = malloc(len ? (size_t)len : 1))) return fail(bytes->err, FERRY_LIMIT, "no memory for the entries");
  FerryBytesMut buffer = {*memory, (size_t)len};
  bytes->at = *memory;
  bytes->left = len;
  return source.table->read_at(source.self, file, bytes->offset, buffer, bytes->err);
}

/* Describes the tensor of an entry, whose elements begin at `place`, and moves `place` to their end. */
static int32_t describe_tensor(FerryCatalogSink catalog, Bytes *entries, uint32_t file, uint64_t *place) {
  Bytes start = *entries;
  uint64_t shape[MAX_RANK], count = 1;
  int has_zero = 0, overflows = 0;
  const uint8_t *head = take(entries, 4);
  if (!head) return malformed(&start, "a truncated entry");
  uint64_t rank = head[1], name_len = number(head + 2, 2);
  const uint8_t *dims = take(entries, rank * 8), *name = take(entries, name_len);
  if (!dims || !name) return malformed(&start, "a truncated entry");
  if (!is_utf8(name, (size_t)name_len)) return malformed(&start, "a tensor's name is not UTF-8");
  size_t type = 0;
  while (type < DTYPE_COUNT && DTYPES[type].code != head[0]) type++;
  if (type == DTYPE_COUNT) return malformed(&start, "no such dtype");
  for (uint64_t axis = 0; axis < rank; axis++) {
    shape[axis] = number(dims + 8 * axis, 8);
    has_zero |= !shape[axis];
  }
  for (uint64_t axis = 0; axis < rank && !has_zero; axis++) {
    overflows |= shape[axis] > UINT64_MAX / 8 / count;
    if (!overflows) count *= shape[axis];
  }
  if (overflows) return malformed(&start, "a tensor that is longer than any file");
  if (has_zero) count = 0;

  FerryDtype facts = {.size = sizeof facts, .name = text_of(DTYPES[type].name), .block_elements = 1,
                      .block_bytes = DTYPES[type].bytes, .swap_unit = DTYPES[type].bytes};
  FerryStorage bytes = {.size = sizeof bytes, .file = file, .offset = *place, .len = count * DTYPES[type].bytes};
  FerryTensor tensor = {.size = sizeof tensor, .name = {name, (size_t)name_len}, .shape = {shape, (size_t)rank}};
  uint32_t id;
  /* The host checks that the bytes are inside the file, and that names are unique. */
  int32_t status = catalog.table->dtype(catalog.self, &facts, &tensor.dtype, entries->err);
  if (!status) status = catalog.table->storage(catalog.self, &bytes, &tensor.storage, entries->err);
  if (!status) status = catalog.table->tensor(catalog.self, &tensor, &id, entries->err);
  *place += bytes.len;
  return status;
}

static int32_t describe_file(FerrySource source, FerryCatalogSink catalog, FerryContext context, uint32_t file, Bytes bytes,
                             uint8_t **memory) {
  uint64_t file_len = 0;
  FerryText path;
  int32_t status = source.table->info(source.self, file, &file_len, &path, bytes.err);
  if (!status) status = load(source, file, context, HEAD_LEN, file_len, &bytes, memory);
  if (status) return status;
  if (memcmp(bytes.at, MAGIC, MAGIC_LEN)) return malformed(&bytes, "not a tray");
  uint64_t count = number(bytes.at + MAGIC_LEN, 4), len = number(bytes.at + MAGIC_LEN + 4, 4);
  free(*memory);
  *memory = NULL;
  bytes.offset = HEAD_LEN;
  if ((status = load(source, file, context, len, file_len, &bytes, memory))) return status;
  uint64_t place = HEAD_LEN + len;
  while (count-- && !status) status = describe_tensor(catalog, &bytes, file, &place);
  if (status) return status;
  if (bytes.left) return malformed(&bytes, "more entries than tensors");
  bytes.offset = place;
  return place == file_len ? FERRY_DONE : malformed(&bytes, "bytes after the last tensor");
}

/* Never called, because no storage is declared as encoded. */
static int32_t decode(void *self, FerrySource source, uint64_t handle, FerryByteSink output, FerryContext context,
                      FerryErrorSink err) {
  (void)self, (void)source, (void)handle, (void)output, (void)context;
  return fail(err, FERRY_PLUGIN_FAULT, "nothing is encoded");
}

static const FerryTensorDecoderTable DECODER = {.size = sizeof DECODER, .decode = decode};

static int32_t read(void *self, FerrySource source, FerryCatalogSink catalog, FerryContext context,
                    FerryTensorDecoder *decoder, FerryErrorSink err) {
  (void)self;
  uint32_t kind = 0, file = 0;
  uint8_t *memory = NULL;
  Bytes bytes = {.err = err};
  int32_t status = source.table->entry(source.self, &kind, &bytes.path, err);
  if (!status && kind != 0) status = fail(err, FERRY_UNSUPPORTED, "a tray is one file");
  if (!status) status = source.table->open(source.self, bytes.path, &file, err);
  if (!status) status = describe_file(source, catalog, context, file, bytes, &memory);
  free(memory);
  if (status) return status;
  decoder->table = &DECODER;
  decoder->self = NULL;
  return FERRY_DONE;
}

static const FerryTensorReaderTable READER = {.size = sizeof READER, .read = read};

/* ---- the writer, which plans where bytes are written, and reports content that a tray cannot store ---- */

typedef struct {
  uint8_t *bytes;
  size_t len, room;
} Buffer;

static int append(Buffer *buffer, const void *bytes, size_t len) {
  if (len > buffer->room - buffer->len) {
    size_t room = (buffer->len + len) * 2;
    uint8_t *more = realloc(buffer->bytes, room);
    if (!more) return 0;
    buffer->bytes = more;
    buffer->room = room;
  }
  if (len) memcpy(buffer->bytes + buffer->len, bytes, len);
  buffer->len += len;
  return 1;
}

static int append_number(Buffer *buffer, uint64_t value, int len) {
  uint8_t bytes[8];
  for (int i = 0; i < len; i++) bytes[i] = (uint8_t)(value >> 8 * i);
  return append(buffer, bytes, (size_t)len);
}

/* Copies up to 7 bytes of a dtype's name. No dtype of a tray has a longer name. */
static int32_t keep_name(void *self, FerryText name, FerryErrorSink err) {
  (void)err;
  snprintf(self, 8, "%.*s", (int)(name.len < 7 ? name.len : 7), (const char *)name.ptr);
  return FERRY_DONE;
}

static const FerryNameSinkTable NAME = {.size = sizeof NAME, .name = keep_name};

/* Appends the entry of a tensor. If a tray cannot store the tensor, leaves it out and reports a loss to the user. */
static int32_t add_entry(FerryCatalogView view, FerryLayoutSink layout, uint32_t id, Buffer *entries, int *is_kept,
                         FerryErrorSink err) {
  FerryText name = {0};
  FerryNumbers shape = {0};
  uint32_t dtype = 0, tied, elements, block, swap;
  uint64_t bytes;
  char dtype_name[8] = "";
  FerryNameSink sink = {&NAME, dtype_name};
  int32_t status = view.table->tensor(view.self, id, &name, &dtype, &shape, &bytes, &tied, err);
  if (!status) status = view.table->dtype(view.self, dtype, sink, &elements, &block, &swap, err);
  if (status) return status;
  size_t type = 0;
  while (type < DTYPE_COUNT && strcmp(DTYPES[type].name, dtype_name)) type++;
  const char *why = type == DTYPE_COUNT      ? "a tray has no code for this dtype"
                    : shape.len > MAX_RANK   ? "a tray holds up to 255 dimensions"
                    : name.len > UINT16_MAX  ? "a tray holds names of up to 65535 bytes"
                                             : NULL;
  *is_kept = !why;
  if (why) return layout.table->omit(layout.self, id, text_of(why), err);
  int fits = append_number(entries, DTYPES[type].code, 1) && append_number(entries, shape.len, 1) &&
             append_number(entries, name.len, 2);
  for (size_t axis = 0; axis < shape.len; axis++) fits = fits && append_number(entries, shape.ptr[axis], 8);
  return fits && append(entries, name.ptr, name.len) ? FERRY_DONE : fail(err, FERRY_LIMIT, "no memory for the entries");
}

static int32_t lay_out(FerryCatalogView view, uint32_t target_kind, FerryText target_name, FerryLayoutSink layout,
                       Buffer *entries, Buffer *kept, FerryErrorSink err) {
  uint32_t tensors = 0, storages, root;
  uint64_t offset, count = 0;
  int32_t status = view.table->counts(view.self, &tensors, &storages, &root, err);
  for (uint32_t id = 0; id < tensors && !status; id++) {
    int is_kept = 0;
    status = add_entry(view, layout, id, entries, &is_kept, err);
    if (is_kept && !status && !append(kept, &id, sizeof id)) status = fail(err, FERRY_LIMIT, "no memory for the entries");
  }
  if (status) return status;
  count = kept->len / sizeof(uint32_t);
  if (entries->len > UINT32_MAX) return fail(err, FERRY_UNSUPPORTED, "a tray holds up to 4 GiB of names and shapes");
  FerryOutputFile file = {.size = sizeof file, .path = target_kind == 0 ? target_name : text_of("tensors.tray")};
  uint32_t output = 0;
  if ((status = layout.table->file(layout.self, &file, &output, err))) return status;
  Buffer head = {0};
  if (append(&head, MAGIC, MAGIC_LEN) && append_number(&head, count, 4) && append_number(&head, entries->len, 4) &&
      append(&head, entries->bytes, entries->len)) {
    FerryBytes bytes = {head.bytes, head.len};
    status = layout.table->bytes(layout.self, output, bytes, &offset, err);
  } else {
    status = fail(err, FERRY_LIMIT, "no memory for the entries");
  }
  free(head.bytes);
  for (uint64_t i = 0; i < count && !status; i++) {
    FerryTensorPart part = {.size = sizeof part, .file = output};
    memcpy(&part.tensor, kept->bytes + i * sizeof part.tensor, sizeof part.tensor);
    status = layout.table->tensor(layout.self, &part, &offset, err);
  }
  return status;
}

/* Does nothing, because no bytes depend on the digests. */
static int32_t seal(void *self, FerryDigests digests, FerrySealSink output, FerryContext context,
                    FerryErrorSink err) {
  (void)self, (void)digests, (void)output, (void)context, (void)err;
  return FERRY_DONE;
}

static const FerryTensorPlanTable PLAN = {.size = sizeof PLAN, .seal = seal};

static int32_t plan(void *self, FerryCatalogView view, uint32_t target_kind, FerryText target_name,
                    FerryLayoutSink layout, FerryContext context, FerryTensorPlan *out, FerryErrorSink err) {
  (void)self, (void)context;
  Buffer entries = {0}, kept = {0};
  int32_t status = lay_out(view, target_kind, target_name, layout, &entries, &kept, err);
  free(entries.bytes);
  free(kept.bytes);
  if (status) return status;
  out->table = &PLAN;
  out->self = NULL;
  return FERRY_DONE;
}

static const FerryTensorWriterTable WRITER = {.size = sizeof WRITER, .plan = plan};

/* ---- the format ---- */

static int32_t describe(void *self, FerryDescription description, FerryErrorSink err) {
  (void)self;
  FerryIdentity identity = {.size = sizeof identity, .id = text_of("tray"), .title = text_of("Tray tensors"),
                            .capabilities = FERRY_READ | FERRY_WRITE};
  FerryMagic magic = {.size = sizeof magic, .bytes = {(const uint8_t *)MAGIC, MAGIC_LEN}};
  int32_t status = description.table->identity(description.self, &identity, err);
  if (!status) status = description.table->suffix(description.self, text_of(".tray"), err);
  return status ? status : description.table->magic(description.self, &magic, err);
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

/* Functions that the plugin does not implement are null: a probe, because the magic bytes suffice, and records. */
static const FerryFormatTable FORMAT = {.size = sizeof FORMAT, .describe = describe,
                                        .tensor_reader = tensor_reader, .tensor_writer = tensor_writer};

static int32_t init(FerryHost host, FerryRegistrar registrar, FerryErrorSink err) {
  (void)host;
  FerryObject format = {(const FerryObjectTable *)&FORMAT, NULL};
  return registrar.table->add(registrar.self, text_of("format"), format, err);
}

__attribute__((visibility("default"))) const FerryManifest FERRY_PLUGIN = {
    .magic = FERRY_MAGIC, .size = sizeof FERRY_PLUGIN, .major = FERRY_MAJOR, .minor_built = FERRY_MINOR,
    .name = "ferry-plugin-tray", .version = "0.1.0", .sdk = "ferry_plugin.h 1.0", .init = init};
