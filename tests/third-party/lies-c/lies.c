/* Two formats in C, of tensors and of rows, that break one rule of the plugin boundary on request. `FERRY_LIE` names the
 * rule. Without a request, the formats work. The tests also build this file with sanitizers, because the host must not
 * read invalid memory, whichever rule is broken.
 */
#include "ferry_plugin.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct ArrowSchema {
  const char *format, *name, *metadata;
  int64_t flags, n_children;
  struct ArrowSchema **children, *dictionary;
  void (*release)(struct ArrowSchema *);
  void *private_data;
};
struct ArrowArray {
  int64_t length, null_count, offset, n_buffers, n_children;
  const void **buffers;
  struct ArrowArray **children, *dictionary;
  void (*release)(struct ArrowArray *);
  void *private_data;
};
struct ArrowArrayStream {
  int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *);
  int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *);
  const char *(*get_last_error)(struct ArrowArrayStream *);
  void (*release)(struct ArrowArrayStream *);
  void *private_data;
};

static int lies(const char *what) {
  const char *asked = getenv("FERRY_LIE");
  return asked && !strcmp(asked, what);
}

static FerryText text_of(const char *text) {
  FerryText it = {(const uint8_t *)text, strlen(text)};
  return it;
}

/* ---- tensors: a file consists of LIES and the four bytes of a tensor ---- */

static int32_t decode(void *self, FerrySource source, uint64_t handle, FerryByteSink output, FerryContext context, FerryErrorSink err) {
  (void)self, (void)source, (void)handle, (void)context;
  FerryBytes bytes = {(const uint8_t *)"abcd", lies("decode-short") ? 3 : 4};
  return output.table->write(output.self, bytes, err);
}

static const FerryTensorDecoderTable DECODER = {.size = sizeof DECODER, .decode = decode};

typedef struct {
  FerrySource source;
  uint32_t file;
  uint8_t byte;
} Job;

static int32_t quiet(void *self, FerryText text) {
  (void)self, (void)text;
  return FERRY_DONE;
}

static int32_t quiet_detail(void *self, FerryText name, FerryText value) {
  (void)self, (void)name, (void)value;
  return FERRY_DONE;
}

static const FerryErrorSinkTable QUIET = {.size = sizeof QUIET, .message = quiet, .detail = quiet_detail};

/* Runs on a thread of the plugin, with its own error sink. */
static void *read_a_byte(void *arg) {
  Job *job = arg;
  FerryErrorSink err = {&QUIET, NULL};
  FerryBytesMut buffer = {&job->byte, 1};
  for (int i = 0; i < 100; i++)
    if (job->source.table->read_at(job->source.self, job->file, 4, buffer, err)) job->byte = 0;
  return NULL;
}

static int32_t read_on_threads(FerrySource source, uint32_t file) {
  Job jobs[4];
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) {
    jobs[i] = (Job){source, file, 0};
    if (pthread_create(&threads[i], NULL, read_a_byte, &jobs[i])) abort();
  }
  int same = 1;
  for (int i = 0; i < 4; i++) {
    pthread_join(threads[i], NULL);
    same &= jobs[i].byte == jobs[0].byte && jobs[i].byte;
  }
  return same ? FERRY_DONE : FERRY_PLUGIN_FAULT;
}

static int32_t read(void *self, FerrySource source, FerryCatalogSink catalog, FerryContext context, FerryTensorDecoder *decoder,
                    FerryErrorSink err) {
  (void)self, (void)context;
  uint32_t kind, file = 0, id;
  FerryText name;
  int32_t status = source.table->entry(source.self, &kind, &name, err);
  if (!status) status = source.table->open(source.self, name, &file, err);
  if (!status && lies("threads")) status = read_on_threads(source, file);
  if (status) return status;
  if (lies("no-reason")) return FERRY_PLUGIN_FAULT;
  if (lies("no-class")) return 1;
  if (lies("negative")) return -1;
  static const uint64_t shape[] = {4}, huge[] = {UINT64_MAX / 2, 4};
  FerryStorage storage = {.size = sizeof storage, .file = file, .offset = 4, .len = 4};
  if (lies("past-the-end")) storage.len = 5;
  if (lies("encoded") || lies("decode-short")) storage.kind = 1;
  if (lies("storage-kind")) storage.kind = 4711;
  if (lies("storage-size")) storage.size = 0;
  if (lies("file")) storage.file = 4711;
  FerryDtype dtype = {.size = sizeof dtype, .name = text_of("U8"), .block_elements = 1, .block_bytes = 1, .swap_unit = 1};
  if (lies("dtype-bytes")) dtype.block_bytes = 2;
  if (lies("dtype-name")) dtype.name = text_of("\xff");
  FerryTensor tensor = {.size = sizeof tensor, .name = text_of("t"), .shape = {shape, 1}};
  if (lies("tensor-name")) tensor.name = text_of("\xc3(");
  if (lies("tensor-nowhere")) tensor.name = (FerryText){NULL, 5};
  if (lies("shape-nowhere")) tensor.shape = (FerryNumbers){NULL, 3};
  if (lies("shape-endless")) tensor.shape.len = SIZE_MAX / 2;
  if (lies("shape-huge")) tensor.shape = (FerryNumbers){huge, 2};
  if (lies("storage-unknown")) tensor.storage = 4711;
  status = catalog.table->storage(catalog.self, &storage, &id, err);
  if (!status && !lies("storage-unknown")) tensor.storage = id;
  if (!status) status = catalog.table->dtype(catalog.self, &dtype, &tensor.dtype, err);
  if (!status && lies("dtype-unknown")) tensor.dtype = 4711;
  if (!status) status = catalog.table->tensor(catalog.self, lies("tensor-null") ? NULL : &tensor, &id, err);
  if (!status && lies("twice")) status = catalog.table->tensor(catalog.self, &tensor, &id, err);
  if (lies("swallows")) {
    tensor.shape.len = SIZE_MAX / 2;
    catalog.table->tensor(catalog.self, &tensor, &id, err);
  }
  static FerryTensorDecoderTable short_one = {.size = 8, .decode = decode};
  *decoder = (FerryTensorDecoder){lies("decoder-null") ? NULL : lies("decoder-size") ? &short_one : &DECODER, NULL};
  return status;
}

static const FerryTensorReaderTable READER = {.size = sizeof READER, .read = read};
static const FerryTensorReaderTable UNREADABLE = {.size = sizeof UNREADABLE};

/* ---- rows: two rows of one column ---- */

static void release_schema(struct ArrowSchema *schema) {
  if (schema->n_children && schema->children) {
    free(schema->children[0]);
    free(schema->children);
  }
  schema->release = NULL;
}

static int make_schema(struct ArrowSchema *out) {
  struct ArrowSchema *child = calloc(1, sizeof *child);
  struct ArrowSchema **children = calloc(1, sizeof *children);
  if (!child || !children) abort();
  *child = (struct ArrowSchema){.format = lies("schema-format") ? "?" : lies("array-text") ? "u" : "l", .name = lies("schema-name") ? "\xff" : "n",
                                .flags = 2, .release = release_schema};
  children[0] = child;
  *out = (struct ArrowSchema){.format = lies("schema-no-struct") ? "l" : "+s", .name = "", .n_children = 1, .children = children,
                              .release = release_schema};
  return 0;
}

static int get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out) {
  (void)stream;
  return lies("stream-schema-fails") ? 5 : make_schema(out);
}

static const int64_t VALUES[] = {7, 8};

static void release_array(struct ArrowArray *array) {
  if (array->n_children) {
    free(array->children[0]->buffers);
    free(array->children[0]);
    free(array->children);
  }
  free(array->private_data);
  array->release = NULL;
}

static int get_next(struct ArrowArrayStream *stream, struct ArrowArray *out) {
  memset(out, 0, sizeof *out);
  if (lies("stream-fails")) return 5;
  if (stream->private_data && !lies("stream-endless")) return 0;
  stream->private_data = stream;
  struct ArrowArray *child = calloc(1, sizeof *child);
  struct ArrowArray **children = calloc(1, sizeof *children);
  const void **buffers = calloc(3, sizeof *buffers), **none = calloc(1, sizeof *none);
  if (!child || !children || !buffers || !none) abort();
  static const int32_t ends[] = {0, 1, 2};
  buffers[1] = lies("array-text") ? (const void *)ends : VALUES;
  buffers[2] = "\xff\xfe";
  *child = (struct ArrowArray){.length = 2, .n_buffers = lies("array-buffers") ? 1 : lies("array-text") ? 3 : 2, .buffers = buffers};
  child->release = release_array;
  children[0] = child;
  *out = (struct ArrowArray){.length = 2, .n_buffers = 1, .n_children = lies("array-children") ? 0 : 1, .buffers = none,
                             .children = children, .release = release_array, .private_data = none};
  return 0;
}

static const char *get_last_error(struct ArrowArrayStream *stream) {
  (void)stream;
  return lies("stream-fails") ? "the stream says why" : NULL;
}

static void release_stream(struct ArrowArrayStream *stream) { stream->release = NULL; }

static int32_t schema(void *self, struct ArrowSchema *out, FerryErrorSink err) {
  (void)self, (void)err;
  make_schema(out);
  if (lies("schema-released")) release_schema(out);
  return FERRY_DONE;
}

static int32_t splits(void *self, FerrySplitSink sink, FerryErrorSink err) {
  (void)self;
  FerrySplit split = {.size = lies("split-size") ? 3 : sizeof split, .file = text_of("in.lies-rows"),
                      .records = lies("split-rows") ? 3 : 2};
  return sink.table->split(sink.self, &split, err);
}

static int32_t scan(void *self, const FerryScan *scan, FerryPredicate predicate, struct ArrowArrayStream *out, uint64_t *ticket,
                    FerryErrorSink err) {
  (void)self, (void)scan, (void)predicate, (void)err;
  *out = (struct ArrowArrayStream){get_schema, get_next, get_last_error, release_stream, NULL};
  if (lies("stream-released")) out->release = NULL;
  if (lies("stream-null")) out->get_next = NULL;
  *ticket = 1;
  return FERRY_DONE;
}

static int32_t drop_set(void *self, FerryErrorSink err) {
  FerrySource *source = self;
  int32_t status = FERRY_HAS(*source, drop) ? source->table->drop(source->self, err) : FERRY_DONE;
  free(source);
  return lies("drop-fails") ? FERRY_PLUGIN_FAULT : status;
}

static const FerryRecordSetTable SET = {.size = sizeof SET, .drop = drop_set, .schema = schema, .splits = splits, .scan = scan};

static int32_t open(void *self, FerrySource source, FerryLossSink losses, FerryContext context, FerryRecordSet *set,
                    FerryErrorSink err) {
  (void)self, (void)losses, (void)context, (void)err;
  FerrySource *kept = malloc(sizeof *kept);
  if (!kept) abort();
  *kept = source;
  *set = (FerryRecordSet){&SET, kept};
  return FERRY_DONE;
}

static const FerryRecordReaderTable RECORD_READER = {.size = sizeof RECORD_READER, .open = open};

/* ---- the formats ---- */

static int32_t describe(void *self, FerryDescription description, FerryErrorSink err) {
  int is_rows = self != NULL;
  const char *id = is_rows ? "lies-rows" : "lies", *start = is_rows ? "ROWS" : "LIES";
  if (lies("id")) id = "\xff\xfe";
  if (lies("id-slash")) id = "a/b";
  if (lies("id-twice")) id = "lies";
  FerryIdentity identity = {.size = lies("identity-size") ? 0 : sizeof identity, .id = text_of(id),
                            .title = text_of("A format that lies"), .capabilities = is_rows ? FERRY_READ_RECORDS : FERRY_READ};
  FerryMagic magic = {.size = sizeof magic, .bytes = {(const uint8_t *)start, 4}, .from_end = lies("flag") ? 2 : 0};
  int32_t status = lies("no-identity") ? FERRY_DONE : description.table->identity(description.self, &identity, err);
  return status ? status : description.table->magic(description.self, &magic, err);
}

static int32_t tensor_reader(void *self, FerryPairs options, FerryTensorReader *reader, FerryErrorSink err) {
  (void)self, (void)options, (void)err;
  *reader = (FerryTensorReader){lies("read-null") ? &UNREADABLE : &READER, NULL};
  return FERRY_DONE;
}

static int32_t record_reader(void *self, FerryPairs options, FerryRecordReader *reader, FerryErrorSink err) {
  (void)self, (void)options, (void)err;
  /* If this function does not set the reader, the reader remains null. */
  if (!lies("reader-null")) *reader = (FerryRecordReader){&RECORD_READER, NULL};
  return FERRY_DONE;
}

static FerryFormatTable FORMAT = {.size = sizeof FORMAT, .describe = describe, .tensor_reader = tensor_reader};
static const FerryFormatTable ROWS = {.size = sizeof ROWS, .describe = describe, .record_reader = record_reader};

static int32_t init(FerryHost host, FerryRegistrar registrar, FerryErrorSink err) {
  (void)host;
  if (lies("table-size")) FORMAT.size = 0;
  if (lies("table-half")) FORMAT.size = sizeof FORMAT / 2;
  if (lies("describe-null")) FORMAT.describe = NULL;
  if (lies("slot-null")) FORMAT.tensor_reader = NULL;
  FerryObject format = {lies("table-null") ? NULL : (const FerryObjectTable *)&FORMAT, NULL};
  FerryObject rows = {(const FerryObjectTable *)&ROWS, &FORMAT};
  int32_t status = registrar.table->add(registrar.self, text_of(lies("kind") ? "step" : "format"), format, err);
  return status ? status : registrar.table->add(registrar.self, text_of("format"), rows, err);
}

#ifndef MAGIC
#define MAGIC FERRY_MAGIC
#endif
#ifndef SIZE
#define SIZE sizeof FERRY_PLUGIN
#endif
#ifndef INIT
#define INIT init
#endif
#ifndef VISIBILITY
#define VISIBILITY "default"
#endif
__attribute__((visibility(VISIBILITY))) const FerryManifest FERRY_PLUGIN = {
    .magic = MAGIC, .size = SIZE, .major = FERRY_MAJOR, .minor_built = FERRY_MINOR,
#ifdef NEEDS_MINOR
    .minor_needed = NEEDS_MINOR,
#endif
    .name = "ferry-plugin-lies", .version = "0.1.0", .sdk = "ferry_plugin.h 1.0", .init = INIT};
