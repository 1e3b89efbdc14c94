// Two formats in C++, of tensors and of rows. Every function that the host calls can throw an exception. `FERRY_THROW` names
// the function that throws, such as `Format.describe`. `guarded` catches the exception. With the prefix `unguarded `, the
// exception leaves the function, which breaks the rules. The tests check the effect on the process.
#include "ferry_plugin.h"
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>

extern "C" {
// From Arrow, <https://arrow.apache.org/docs/format/CDataInterface.html>.
struct ArrowSchema {
  const char *format, *name, *metadata;
  int64_t flags, n_children;
  ArrowSchema **children, *dictionary;
  void (*release)(ArrowSchema *);
  void *private_data;
};
struct ArrowArray {
  int64_t length, null_count, offset, n_buffers, n_children;
  const void **buffers;
  ArrowArray **children, *dictionary;
  void (*release)(ArrowArray *);
  void *private_data;
};
struct ArrowArrayStream {
  int (*get_schema)(ArrowArrayStream *, ArrowSchema *);
  int (*get_next)(ArrowArrayStream *, ArrowArray *);
  const char *(*get_last_error)(ArrowArrayStream *);
  void (*release)(ArrowArrayStream *);
  void *private_data;
};
}

namespace {

FerryText text_of(const char *text) { return {reinterpret_cast<const uint8_t *>(text), std::strlen(text)}; }

bool is_asked(const std::string &what) {
  const char *asked = std::getenv("FERRY_THROW");
  return asked && what == asked;
}

void throw_if_asked(const std::string &entry) {
  if (is_asked(entry)) throw std::runtime_error("thrown in " + entry);
}

// Runs code that may throw, returns the status, and reports the message.
template <class Run> int32_t guarded(FerryErrorSink err, const char *entry, Run run) {
  throw_if_asked("unguarded " + std::string(entry));
  std::string why = "an exception that is not a std::exception";
  try {
    throw_if_asked(entry);
    return run();
  } catch (const std::exception &thrown) {
    why = thrown.what();
  } catch (...) {
  }
  if (FERRY_HAS(err, message)) err.table->message(err.self, text_of(why.c_str()));
  return FERRY_PLUGIN_FAULT;
}

int32_t done() { return FERRY_DONE; }

// Objects own no resources. `drop` exists only to throw an exception.
#define DROP(name, object) \
  int32_t name(void *, FerryErrorSink err) { return guarded(err, object ".drop", done); }

int32_t write(FerryByteSink output, const char *text, FerryErrorSink err) {
  return output.table->write(output.self, {reinterpret_cast<const uint8_t *>(text), std::strlen(text)}, err);
}

int32_t name(FerryNameSink names, const char *text, FerryErrorSink err) {
  return names.table->name(names.self, text_of(text), err);
}

// ---- tensors: an input file consists of its magic; a written file is longer, as the plan requires ----

int32_t decode(void *, FerrySource, uint64_t, FerryByteSink output, FerryContext, FerryErrorSink err) {
  return guarded(err, "TensorDecoder.decode", [&] { return write(output, "abcd", err); });
}

DROP(drop_decoder, "TensorDecoder")
const FerryTensorDecoderTable DECODER = {sizeof DECODER, drop_decoder, nullptr, decode};

int32_t read(void *, FerrySource, FerryCatalogSink catalog, FerryContext, FerryTensorDecoder *decoder, FerryErrorSink err) {
  return guarded(err, "TensorReader.read", [&] {
    FerryStorage storage{};
    storage.size = sizeof storage;
    storage.kind = 1;
    storage.len = 4;
    FerryDtype dtype = {sizeof dtype, text_of("U8"), 1, 1, 1};
    static const uint64_t shape[] = {4};
    FerryTensor tensor{};
    tensor.size = sizeof tensor;
    tensor.name = text_of("t");
    tensor.shape = {shape, 1};
    uint32_t id;
    int32_t status = catalog.table->storage(catalog.self, &storage, &tensor.storage, err);
    if (!status) status = catalog.table->dtype(catalog.self, &dtype, &tensor.dtype, err);
    if (!status) status = catalog.table->tensor(catalog.self, &tensor, &id, err);
    *decoder = {&DECODER, nullptr};
    return status;
  });
}

DROP(drop_reader, "TensorReader")
const FerryTensorReaderTable READER = {sizeof READER, drop_reader, nullptr, read};

int32_t stream(void *, uint32_t, FerryCatalogView, FerryByteSink output, FerryContext, FerryErrorSink err) {
  return guarded(err, "TensorPlan.stream", [&] { return write(output, "EVERYTENSOR", err); });
}

int32_t encode_tensor(void *, uint32_t, FerryCatalogView, FerryByteSink output, FerryByteSink, FerryContext, FerryErrorSink err) {
  return guarded(err, "TensorPlan.encode", [&] { return write(output, "EVERYTENSOR", err); });
}

int32_t seal_tensors(void *, FerryDigests, FerrySealSink, FerryContext, FerryErrorSink err) {
  return guarded(err, "TensorPlan.seal", done);
}

DROP(drop_plan, "TensorPlan")
const FerryTensorPlanTable PLAN = {sizeof PLAN, drop_plan, nullptr, stream, encode_tensor, seal_tensors};

int32_t plan_tensors(void *, FerryCatalogView, uint32_t, FerryText target, FerryLayoutSink layout, FerryContext,
                     FerryTensorPlan *plan, FerryErrorSink err) {
  return guarded(err, "TensorWriter.plan", [&] {
    static const uint32_t tensors[] = {0};
    bool is_streamed = is_asked("TensorPlan.stream") || is_asked("unguarded TensorPlan.stream");
    FerryOutputFile file{};
    file.size = sizeof file;
    file.path = target;
    file.kind = is_streamed;
    if (is_streamed) file.tensors = {tensors, 1};
    FerryEncodedSegment segment{};
    segment.size = sizeof segment;
    segment.len = 11;
    segment.tensors = {tensors, 1};
    uint32_t id;
    uint64_t offset;
    int32_t status = layout.table->file(layout.self, &file, &segment.file, err);
    if (!status && !is_streamed) status = layout.table->encoded(layout.self, &segment, &id, &offset, err);
    *plan = {&PLAN, nullptr};
    return status;
  });
}

int32_t steps(void *, FerryCatalogView, FerryNameSink, FerryContext, FerryErrorSink err) {
  return guarded(err, "TensorWriter.steps", [] { return 0; });
}

DROP(drop_writer, "TensorWriter")
const FerryTensorWriterTable WRITER = {sizeof WRITER, drop_writer, nullptr, plan_tensors, steps};

// ---- rows: one row of one column ----

void release_schema(ArrowSchema *schema) {
  if (schema->n_children) delete schema->children[0], delete[] schema->children;
  schema->release = nullptr;
}

void make_schema(ArrowSchema *out) {
  auto child = new ArrowSchema{"l", "n", nullptr, 2, 0, nullptr, nullptr, release_schema, nullptr};
  *out = {"+s", "", nullptr, 0, 1, new ArrowSchema *[1]{child}, nullptr, release_schema, nullptr};
}

// Arrow's callbacks return an error number, because they have no error sink.
template <class Run> int guarded_number(const char *entry, Run run) {
  throw_if_asked("unguarded " + std::string(entry));
  try {
    throw_if_asked(entry);
    run();
    return 0;
  } catch (...) {
    return 5; // EIO
  }
}

int get_schema(ArrowArrayStream *, ArrowSchema *out) {
  return guarded_number("Stream.get_schema", [&] { make_schema(out); });
}

void release_array(ArrowArray *array) {
  if (array->n_children) delete array->children[0], delete[] array->children;
  delete[] array->buffers;
  array->release = nullptr;
}

int get_next(ArrowArrayStream *stream, ArrowArray *out) {
  return guarded_number("Stream.get_next", [&] {
    static const int64_t value = 7;
    *out = ArrowArray();
    if (stream->private_data) return;
    stream->private_data = stream; // the only batch has been returned
    auto child = new ArrowArray{1, 0, 0, 2, 0, new const void *[2]{nullptr, &value}, nullptr, nullptr, release_array, nullptr};
    *out = {1, 0, 0, 1, 1, new const void *[1]{nullptr}, new ArrowArray *[1]{child}, nullptr, release_array, nullptr};
  });
}

const char *get_last_error(ArrowArrayStream *) { return "an exception in a stream"; }

void release_stream(ArrowArrayStream *stream) { stream->release = nullptr; }

int32_t schema(void *, ArrowSchema *out, FerryErrorSink err) {
  return guarded(err, "RecordSet.schema", [&] { return make_schema(out), FERRY_DONE; });
}

int32_t splits(void *, FerrySplitSink sink, FerryErrorSink err) {
  return guarded(err, "RecordSet.splits", [&] {
    FerrySplit split{};
    split.size = sizeof split;
    split.file = text_of("in.every-rows");
    split.records = 1;
    return sink.table->split(sink.self, &split, err);
  });
}

int32_t scan(void *, const FerryScan *, FerryPredicate, ArrowArrayStream *out, uint64_t *ticket, FerryErrorSink err) {
  return guarded(err, "RecordSet.scan", [&] {
    *out = {get_schema, get_next, get_last_error, release_stream, nullptr};
    *ticket = 1;
    return FERRY_DONE;
  });
}

// The host calls this function for a stream that failed.
int32_t fault(void *, uint64_t, FerryErrorSink err) {
  return guarded(err, "RecordSet.fault", [&] {
    if (!is_asked("Stream.get_next") && !is_asked("Stream.get_schema")) return FERRY_DONE;
    if (FERRY_HAS(err, message)) err.table->message(err.self, text_of(("thrown in " + std::string(std::getenv("FERRY_THROW"))).c_str()));
    return FERRY_PLUGIN_FAULT;
  });
}

int32_t json(void *, uint32_t, uint64_t, FerryByteSink, uint64_t *written, FerryErrorSink err) {
  return guarded(err, "RecordSet.json", [&] { return *written = FERRY_UNKNOWN, FERRY_DONE; });
}

int32_t skipped(void *, FerrySkippedSink, FerryErrorSink err) { return guarded(err, "RecordSet.skipped", done); }
int32_t losses(void *, FerryLossSink, FerryErrorSink err) { return guarded(err, "RecordSet.losses", done); }

// The set owns the source. It is the only object here that owns anything.
int32_t drop_set(void *self, FerryErrorSink err) {
  FerrySource *source = static_cast<FerrySource *>(self);
  if (FERRY_HAS(*source, drop)) source->table->drop(source->self, err);
  delete source;
  return guarded(err, "RecordSet.drop", done);
}

const FerryRecordSetTable SET = {sizeof SET, drop_set, nullptr, schema, splits, scan, fault, json, skipped, losses};

int32_t open(void *, FerrySource source, FerryLossSink, FerryContext, FerryRecordSet *set, FerryErrorSink err) {
  return guarded(err, "RecordReader.open", [&] {
    *set = {&SET, new FerrySource(source)};
    return FERRY_DONE;
  });
}

int32_t index_rows(void *, FerrySource, FerryByteSink output, FerryContext, uint64_t *records, uint64_t *bytes, FerryErrorSink err) {
  return guarded(err, "RecordReader.index", [&] { return *records = *bytes = 0, write(output, "index", err); });
}

DROP(drop_record_reader, "RecordReader")
const FerryRecordReaderTable RECORD_READER = {sizeof RECORD_READER, drop_record_reader, nullptr, open, index_rows};

bool is_rolling() { return is_asked("RecordPlan.name") || is_asked("unguarded RecordPlan.name"); }

int32_t files(void *self, FerryNameSink names, FerryErrorSink err) {
  return guarded(err, "RecordPlan.files", [&] {
    return is_rolling() ? FERRY_DONE : name(names, static_cast<std::string *>(self)->c_str(), err);
  });
}

int32_t roll(void *, uint32_t *kind, uint64_t *size, FerryErrorSink err) {
  return guarded(err, "RecordPlan.roll", [&] { return *kind = is_rolling(), *size = 1, FERRY_DONE; });
}

int32_t name_file(void *self, uint32_t, uint32_t, FerryNameSink to, FerryErrorSink err) {
  return guarded(err, "RecordPlan.name", [&] { return name(to, static_cast<std::string *>(self)->c_str(), err); });
}

int32_t supersedes(void *, FerryNameSink, FerryErrorSink err) { return guarded(err, "RecordPlan.supersedes", done); }

int32_t group(void *, uint64_t *rows, uint64_t *bytes, FerryErrorSink err) {
  return guarded(err, "RecordPlan.group", [&] { return *rows = *bytes = 1024, FERRY_DONE; });
}

int32_t begin(void *, uint32_t, FerryByteSink output, FerryErrorSink err) {
  return guarded(err, "RecordPlan.begin", [&] { return write(output, "EVERYROWS", err); });
}

int32_t encode_rows(void *, ArrowArrayStream *, FerryByteSink, FerryLossSink, FerryByteSink, FerryErrorSink err) {
  return guarded(err, "RecordPlan.encode", done);
}

int32_t finish(void *, uint32_t, FerryPieces, FerryByteSink, FerryErrorSink err) {
  return guarded(err, "RecordPlan.finish", done);
}

int32_t sealed(void *, FerryNameSink names, FerryErrorSink err) {
  return guarded(err, "RecordPlan.sealed", [&] {
    return is_asked("RecordPlan.seal") || is_asked("unguarded RecordPlan.seal") ? name(names, "list", err) : FERRY_DONE;
  });
}

int32_t seal_rows(void *, uint32_t, FerryWrittenFiles, FerryByteSink, FerryErrorSink err) {
  return guarded(err, "RecordPlan.seal", done);
}

int32_t notes(void *, FerryNameSink, FerryErrorSink err) { return guarded(err, "RecordPlan.notes", done); }

int32_t drop_record_plan(void *self, FerryErrorSink err) {
  delete static_cast<std::string *>(self);
  return guarded(err, "RecordPlan.drop", done);
}

const FerryRecordPlanTable RECORD_PLAN = {sizeof RECORD_PLAN, drop_record_plan, nullptr, files, roll, name_file, supersedes, group,
                                          begin, encode_rows, finish, sealed, seal_rows, notes};

int32_t plan_rows(void *, ArrowSchema *, const FerryRecordOutput *output, FerryLossSink, FerryContext, FerryRecordPlan *plan,
                  FerryErrorSink err) {
  return guarded(err, "RecordWriter.plan", [&] {
    FerryText target = output->target_name;
    const char *start = reinterpret_cast<const char *>(target.ptr);
    *plan = {&RECORD_PLAN, new std::string(target.len ? std::string(start, target.len) : "rows.every-rows")};
    return FERRY_DONE;
  });
}

DROP(drop_record_writer, "RecordWriter")
const FerryRecordWriterTable RECORD_WRITER = {sizeof RECORD_WRITER, drop_record_writer, nullptr, plan_rows};

// ---- the formats ----

int32_t describe_as(FerryDescription description, const char *id, const char *start, uint64_t capabilities, FerryErrorSink err) {
  std::string suffix = "." + std::string(id);
  FerryIdentity identity = {sizeof identity, text_of(id), text_of("A format that throws"), capabilities, 0};
  FerryMagic magic = {sizeof magic, 0, {reinterpret_cast<const uint8_t *>(start), std::strlen(start)}, {nullptr, 0}, 0};
  int32_t status = description.table->identity(description.self, &identity, err);
  if (!status) status = description.table->suffix(description.self, text_of(suffix.c_str()), err);
  return status ? status : description.table->magic(description.self, &magic, err);
}

int32_t describe_tensors(void *, FerryDescription description, FerryErrorSink err) {
  return guarded(err, "Format.describe", [&] { return describe_as(description, "every-tensor", "EVERYTENSOR", FERRY_READ | FERRY_WRITE, err); });
}

int32_t describe_rows(void *, FerryDescription description, FerryErrorSink err) {
  uint64_t capabilities = FERRY_READ_RECORDS | FERRY_WRITE_RECORDS | FERRY_INDEX;
  return guarded(err, "Format.describe", [&] { return describe_as(description, "every-rows", "EVERYROWS", capabilities, err); });
}

int32_t probe(void *, FerrySource, FerryContext, int64_t *score, FerryErrorSink err) {
  return guarded(err, "Format.probe", [&] { return *score = -1, FERRY_DONE; });
}

#define GIVES(function, slot, Type, TABLE) \
  int32_t function(void *, FerryPairs, Type *out, FerryErrorSink err) { \
    return guarded(err, "Format." slot, [&] { return *out = {&TABLE, nullptr}, FERRY_DONE; }); \
  }

GIVES(tensor_reader, "tensor_reader", FerryTensorReader, READER)
GIVES(tensor_writer, "tensor_writer", FerryTensorWriter, WRITER)
GIVES(record_reader, "record_reader", FerryRecordReader, RECORD_READER)
GIVES(record_writer, "record_writer", FerryRecordWriter, RECORD_WRITER)
DROP(drop_format, "Format")

const FerryFormatTable TENSORS = {sizeof TENSORS, drop_format, nullptr, describe_tensors, probe, tensor_reader, tensor_writer, nullptr, nullptr};
const FerryFormatTable ROWS = {sizeof ROWS, drop_format, nullptr, describe_rows, probe, nullptr, nullptr, record_reader, record_writer};

int32_t init(FerryHost, FerryRegistrar registrar, FerryErrorSink err) {
  return guarded(err, "init", [&] {
    FerryObject tensors = {reinterpret_cast<const FerryObjectTable *>(&TENSORS), nullptr};
    FerryObject rows = {reinterpret_cast<const FerryObjectTable *>(&ROWS), nullptr};
    int32_t status = registrar.table->add(registrar.self, text_of("format"), tensors, err);
    return status ? status : registrar.table->add(registrar.self, text_of("format"), rows, err);
  });
}

} // namespace

extern "C" __attribute__((visibility("default"))) const FerryManifest FERRY_PLUGIN = {
    FERRY_MAGIC, sizeof(FerryManifest), FERRY_MAJOR, FERRY_MINOR, 0, 0,
    {'e', 'v', 'e', 'r', 'y'}, {'0', '.', '1'}, {'C', '+', '+'}, init};
