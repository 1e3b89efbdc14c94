// A format in C++ whose code throws exceptions. `guarded` catches every exception before it reaches the host.
#include "ferry_plugin.h"
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>

namespace {

FerryText text_of(const char *text) {
  return {reinterpret_cast<const uint8_t *>(text), std::strlen(text)};
}

// Runs code that may throw. Because of `noexcept`, an escaping exception ends the process here and never unwinds the host.
template <class Run> int32_t guarded(FerryErrorSink err, Run run) noexcept {
  std::string why = "an exception that is not a std::exception";
  try {
    return run();
  } catch (const std::exception &thrown) {
    why = thrown.what();
  } catch (...) {
  }
  if (FERRY_HAS(err, message)) err.table->message(err.self, text_of(why.c_str()));
  return FERRY_PLUGIN_FAULT;
}

// The reader throws the exception that the contents of the input request.
struct Reader {
  std::string file;

  int32_t read(FerrySource source, FerryErrorSink err) {
    uint32_t kind = 0, id = 0;
    uint64_t len = 0;
    FerryText name{}, path{};
    if (int32_t status = source.table->entry(source.self, &kind, &name, err)) return status;
    if (int32_t status = source.table->open(source.self, name, &id, err)) return status;
    if (int32_t status = source.table->info(source.self, id, &len, &path, err)) return status;
    file.assign(reinterpret_cast<const char *>(path.ptr), path.len);
    std::string bytes(static_cast<size_t>(len), '\0');
    FerryBytesMut buffer{reinterpret_cast<uint8_t *>(&bytes[0]), bytes.size()};
    if (int32_t status = source.table->read_at(source.self, id, 0, buffer, err)) return status;
    if (bytes.find("number") != std::string::npos) throw 42;
    throw std::runtime_error("thrown while " + file + " was read");
  }
};

int32_t drop_reader(void *self, FerryErrorSink err) {
  return guarded(err, [&] {
    delete static_cast<Reader *>(self);
    return FERRY_DONE;
  });
}

int32_t read(void *self, FerrySource source, FerryCatalogSink, FerryContext, FerryTensorDecoder *, FerryErrorSink err) {
  return guarded(err, [&] {
    // The host calls this from many threads, so each call changes only its own copy.
    Reader own(*static_cast<Reader *>(self));
    return own.read(source, err);
  });
}

const FerryTensorReaderTable READER = {sizeof(FerryTensorReaderTable), drop_reader, nullptr, read};

int32_t describe(void *, FerryDescription description, FerryErrorSink err) {
  return guarded(err, [&] {
    static const uint8_t bytes[] = {'T', 'H', 'R', 'O', 'W', 'S'};
    FerryIdentity identity = {sizeof identity, text_of("throws"), text_of("A format that throws"), FERRY_READ, 0};
    FerryMagic magic = {sizeof magic, 0, {bytes, sizeof bytes}, {nullptr, 0}, 0};
    int32_t status = description.table->identity(description.self, &identity, err);
    return status ? status : description.table->magic(description.self, &magic, err);
  });
}

int32_t tensor_reader(void *, FerryPairs, FerryTensorReader *reader, FerryErrorSink err) {
  return guarded(err, [&] {
    *reader = {&READER, new Reader};
    return FERRY_DONE;
  });
}

// C++11 has no designated initializers. Null entries are functions that the format does not support.
const FerryFormatTable FORMAT = {sizeof(FerryFormatTable), nullptr, nullptr, describe, nullptr, tensor_reader,
                                 nullptr, nullptr, nullptr};

int32_t init(FerryHost, FerryRegistrar registrar, FerryErrorSink err) {
  return guarded(err, [&] {
    FerryObject format = {reinterpret_cast<const FerryObjectTable *>(&FORMAT), nullptr};
    return registrar.table->add(registrar.self, text_of("format"), format, err);
  });
}

} // namespace

extern "C" __attribute__((visibility("default"))) const FerryManifest FERRY_PLUGIN = {
    FERRY_MAGIC, sizeof(FerryManifest), FERRY_MAJOR, FERRY_MINOR, 0, 0,
    {'t', 'h', 'r', 'o', 'w', 's'}, {'0', '.', '1'}, {'C', '+', '+'}, init};
