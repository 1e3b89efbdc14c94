/* The boundary between ferry and its format plugins, for C and for languages that can call C.
 *
 * This file is generated from the declarations in the crate tensorferry-abi. That crate and the guide for plugin
 * authors contain the full rules. In short:
 * - An object is { table, self }. A table is in static memory, begins with its size, and grows at its end. If a slot
 *   is null or past the end of the table, the object does not offer that function: see FERRY_HAS.
 *   A plugin may leave these slots null: every drop and extension; all of FerryFormat except describe; all of
 *   FerryTensorDecoder and FerryTensorPlan; FerryRecordReader.index; fault, json, skipped and losses of
 *   FerryRecordSet; all of FerryRecordPlan except encode, and either files or the slots for starting new files.
 * - A call returns FERRY_DONE, or a status whose high 16 bits are a class. Before you return an error, report the
 *   reason to ferry's error sink. Write results through the pointers only if the call succeeds. If a call fails with
 *   FERRY_CANCELLED, the user has canceled the run: return that status.
 * - Arguments are borrowed until the call returns, including objects, strings and slices. The receiver owns the
 *   objects that a call returns, and those that are passed to FerryRegistrar.add and FerryRecordReader.open. It calls
 *   the drop of each such object once. Returned strings and slices remain valid for as long as the called object
 *   exists.
 * - An object is dropped after the objects that it created: a set after its streams, a reader after its set.
 * - Many threads call formats, readers, writers, decoders, plans and sets at the same time. Only the thread that
 *   received a sink may call it. Libraries are never unloaded.
 * - Text is UTF-8 without a terminator. Treat an unknown number as unsupported, never as a default.
 * - No exception and no longjmp may leave a function.
 */
#ifndef FERRY_PLUGIN_H
#define FERRY_PLUGIN_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

#define FERRY_DONE 0
/* Returns the status for an error class. */
#define FERRY_STATUS(class) ((int32_t)((class) << 16))
#define FERRY_MALFORMED FERRY_STATUS(1)
#define FERRY_UNSUPPORTED FERRY_STATUS(2)
#define FERRY_LIMIT FERRY_STATUS(3)
#define FERRY_IO FERRY_STATUS(4)
#define FERRY_TRANSIENT FERRY_STATUS(5)
#define FERRY_PLUGIN_FAULT FERRY_STATUS(6)
#define FERRY_USAGE FERRY_STATUS(7)
#define FERRY_VERIFICATION FERRY_STATUS(8)
#define FERRY_CANCELLED FERRY_STATUS(9)
#define FERRY_GUESS FERRY_STATUS(10)

#define FERRY_UNKNOWN UINT64_MAX

/* The bits of FerryIdentity.capabilities. */
#define FERRY_READ 1
#define FERRY_WRITE 2
#define FERRY_KEEPS_TREE 4
#define FERRY_KEEPS_METADATA 8
#define FERRY_KEEPS_TIES 16
#define FERRY_READ_RECORDS 32
#define FERRY_WRITE_RECORDS 64
#define FERRY_INDEX 128
#define FERRY_PREFIX 256
#define FERRY_KEEPS_ATTRIBUTES 512
#define FERRY_KEEPS_VALUES 1024
#define FERRY_KEEPS_DTYPES 2048
#define FERRY_NEEDS_NUMBERS 4096
#define FERRY_EXTERNAL 8192

/* The values of FerryNode.kind, with the meaning of the node's bytes or children. */
#define FERRY_NONE 1       /* no value */
#define FERRY_BOOL 2       /* one byte, 0 or 1 */
#define FERRY_INT 3        /* an integer in two's complement, little-endian, at least one byte */
#define FERRY_FLOAT 4      /* a double, little-endian */
#define FERRY_COMPLEX 5    /* two doubles, little-endian */
#define FERRY_TEXT 6       /* UTF-8 */
#define FERRY_BYTES 7      /* any bytes */
#define FERRY_LIST 8       /* the children are the elements */
#define FERRY_TUPLE 9      /* the children are the elements */
#define FERRY_SET 10       /* the children are the elements */
#define FERRY_MAP 11       /* alternating keys and values; values may only have the kinds 1 to 11 and FERRY_NUMBERS */
#define FERRY_TENSOR 12    /* the id of a tensor: a uint32_t, little-endian */
#define FERRY_OBJECT 13    /* the parts of an object whose class only the format understands */
#define FERRY_ATTRIBUTED 14 /* a value, followed by the attributes of the value */
#define FERRY_NUMBERS 15   /* elements of the dtype in class_name, little-endian */

/* The bits of FerryContext.purpose. */
#define FERRY_TO_SHOW 1
#define FERRY_TO_COMPARE 2
#define FERRY_TO_COPY 4
#define FERRY_TO_NEST 8
#define FERRY_TO_FLATTEN 16
#define FERRY_TO_LIST 32
#define FERRY_TO_READ_ONCE 64

typedef struct { const uint8_t *ptr; size_t len; } FerryText;
typedef struct { const uint8_t *ptr; size_t len; } FerryBytes;
typedef struct { uint8_t *ptr; size_t len; } FerryBytesMut;
typedef struct { const uint64_t *ptr; size_t len; } FerryNumbers;
typedef struct { const uint32_t *ptr; size_t len; } FerryIds;
typedef struct { const FerryText *ptr; size_t len; } FerryTexts;
typedef struct { FerryText key; FerryText value; } FerryPair;
typedef struct { const FerryPair *ptr; size_t len; } FerryPairs;

/* Arrow's C data and C stream interface: <https://arrow.apache.org/docs/format/CDataInterface.html>. */
struct ArrowSchema;
struct ArrowArrayStream;

typedef struct FerryErrorSinkTable FerryErrorSinkTable;
typedef struct { const FerryErrorSinkTable *table; void *self; } FerryErrorSink;

/* Receives the reason for a failure: the message first, then details such as file, tensor, offset, expected, found. */
struct FerryErrorSinkTable {
  size_t size;
  int32_t (*drop)(void *self, FerryErrorSink err);
  int32_t (*extension)(void *self, FerryText id, const void **table, FerryErrorSink err);
  int32_t (*message)(void *self, FerryText message);
  int32_t (*detail)(void *self, FerryText name, FerryText value);
};

/* The slots that every table begins with, after its size. */
#define FERRY_COMMON_SLOTS \
  int32_t (*drop)(void *self, FerryErrorSink err); \
  int32_t (*extension)(void *self, FerryText id, const void **table, FerryErrorSink err);

