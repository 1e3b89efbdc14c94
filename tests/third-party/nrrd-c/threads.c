/* A host in C that reads one file with a library's format on many threads at the same time: `threads LIBRARY`. The tests
 * build it with ThreadSanitizer, which then checks both sides of the plugin boundary. */
#include "ferry_plugin.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 8
#define TIMES 1000

static const char FILE_BYTES[] =
    "NRRD0004\ntype: short\ndimension: 2\nsizes: 1 2\nencoding: raw\nendian: little\nunit:=mm\n\nabcd";
static FerryFormat format;
static FerryTensorReader reader;

static FerryText text_of(const char *text) {
  FerryText it = {(const uint8_t *)text, strlen(text)};
  return it;
}

/* ---- the source: shared by all threads ---- */

static int32_t entry(void *self, uint32_t *kind, FerryText *name, FerryErrorSink err) {
  (void)self, (void)err;
  *kind = 0;
  *name = text_of("a.nrrd");
  return FERRY_DONE;
}

static int32_t open_file(void *self, FerryText name, uint32_t *file, FerryErrorSink err) {
  (void)self, (void)name, (void)err;
  *file = 0;
  return FERRY_DONE;
}

static int32_t info(void *self, uint32_t file, uint64_t *len, FerryText *name, FerryErrorSink err) {
  (void)self, (void)file, (void)err;
  *len = sizeof FILE_BYTES - 1;
  *name = text_of("a.nrrd");
  return FERRY_DONE;
}

static int32_t read_at(void *self, uint32_t file, uint64_t offset, FerryBytesMut buffer, FerryErrorSink err) {
  (void)self, (void)file, (void)err;
  if (offset > sizeof FILE_BYTES - 1 || buffer.len > sizeof FILE_BYTES - 1 - offset) return FERRY_IO;
  memcpy(buffer.ptr, FILE_BYTES + offset, buffer.len);
  return FERRY_DONE;
}

static const FerrySourceTable SOURCE = {.size = sizeof SOURCE, .entry = entry, .open = open_file, .info = info, .read_at = read_at};

/* ---- the other arguments of a reader: a context, and for each thread a catalog that counts correct tensors ---- */

static int32_t limit(void *self, FerryText name, uint64_t *value, FerryErrorSink err) {
  (void)self, (void)name, (void)err;
  *value = FERRY_UNKNOWN;
  return FERRY_DONE;
}

static const FerryContextTable CONTEXT = {.size = sizeof CONTEXT, .limit = limit};

static int32_t storage(void *self, const FerryStorage *storage, uint32_t *id, FerryErrorSink err) {
  (void)self, (void)storage, (void)err;
  *id = 0;
  return FERRY_DONE;
}

static int32_t dtype(void *self, const FerryDtype *dtype, uint32_t *id, FerryErrorSink err) {
  (void)self, (void)dtype, (void)err;
  *id = 0;
  return FERRY_DONE;
}

static int32_t tensor(void *self, const FerryTensor *tensor, uint32_t *id, FerryErrorSink err) {
  (void)err;
  *id = 0;
  *(int *)self += tensor->shape.len == 2 && tensor->shape.ptr[0] == 2 && tensor->shape.ptr[1] == 1;
  return FERRY_DONE;
}

static int32_t value(void *self, const FerryNode *node, uint32_t *id, FerryErrorSink err) {
  (void)self, (void)node, (void)err;
  *id = 0;
  return FERRY_DONE;
}

static int32_t metadata(void *self, FerryText key, uint32_t value, FerryErrorSink err) {
  (void)self, (void)key, (void)value, (void)err;
  return FERRY_DONE;
}

static const FerryCatalogSinkTable CATALOG = {.size = sizeof CATALOG, .storage = storage, .dtype = dtype, .tensor = tensor, .value = value, .metadata = metadata};

static const struct FerryErrorSinkTable ERRORS = {.size = sizeof ERRORS};

static void *read_many(void *count) {
  FerrySource source = {&SOURCE, NULL};
  FerryContext context = {&CONTEXT, NULL};
  FerryErrorSink err = {&ERRORS, NULL};
  for (int i = 0; i < TIMES; i++) {
    FerryCatalogSink catalog = {&CATALOG, count};
    FerryTensorDecoder decoder = {0};
    if (reader.table->read(reader.self, source, catalog, context, &decoder, err)) return NULL;
    if (FERRY_HAS(decoder, drop)) decoder.table->drop(decoder.self, err);
  }
  return NULL;
}

static int32_t add(void *self, FerryText kind, FerryObject object, FerryErrorSink err) {
  (void)self, (void)kind, (void)err;
  format.table = (const FerryFormatTable *)object.table;
  format.self = object.self;
  return FERRY_DONE;
}

static int32_t revision(void *self, uint32_t *major, uint32_t *minor, FerryErrorSink err) {
  (void)self, (void)err;
  *major = FERRY_MAJOR;
  *minor = FERRY_MINOR;
  return 0;
}

int main(int count, char **arguments) {
  static const FerryRegistrarTable REGISTRAR = {.size = sizeof REGISTRAR, .add = add};
  static const FerryHostTable HOST = {.size = sizeof HOST, .revision = revision};
  FerryHost host = {&HOST, NULL};
  FerryRegistrar registrar = {&REGISTRAR, NULL};
  FerryErrorSink err = {&ERRORS, NULL};
  void *library = count == 2 ? dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  const FerryManifest *manifest = library ? dlsym(library, "FERRY_PLUGIN") : NULL;
  FerryPairs options = {0};
  if (!manifest || manifest->init(host, registrar, err) || format.table->tensor_reader(format.self, options, &reader, err)) {
    fprintf(stderr, "no plugin: %s\n", dlerror());
    return 1;
  }
  pthread_t threads[THREADS];
  int counts[THREADS] = {0}, all = 0;
  for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, read_many, &counts[i]);
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    all += counts[i];
  }
  printf("read %d times by %d threads\n", all, THREADS);
  return 0;
}
