/* The boundary between ferry and its format plugins, for C and for languages that can call C.
 *
 * This file is generated from the declarations in the crate tensorferry-abi. The full rules are in that crate and in
 * the guide for authors. In short:
 * - An object is { table, self }. A table is in static memory, begins with its size, and grows at its end. A slot
 *   that is null or past the end of the other side's table is not offered: see FERRY_HAS.
 *   A plugin may leave these slots null: every drop and extension; all of FerryFormat except describe; all of
 *   FerryTensorDecoder and FerryTensorPlan; FerryRecordReader.index; fault, json, skipped and losses of
 *   FerryRecordSet; all of FerryRecordPlan except encode, and either files or the slots for rolling.
 * - A call returns FERRY_DONE, or a status whose high 16 bits are a class. Before you return an error, report the
 *   reason to ferry's error sink. Results are written through pointers, only on success. If a call fails with
 *   FERRY_CANCELLED, the user has canceled the run: return that status.
 * - Arguments are borrowed until the call returns, including objects, texts and slices. The receiver owns objects
 *   that are results, and those that are passed to FerryRegistrar.add and FerryRecordReader.open. It calls their
 *   drop once. Texts and slices that are results stay valid for as long as the object that was called.
 * - An object is dropped after the objects that it created: a set after its streams, a reader after its set.
 * - Formats, readers, writers, decoders, plans and sets are called from many threads at once. A sink may only be
 *   called on the thread that received it. Libraries are never unloaded.
 * - Text is UTF-8, not terminated. Treat an unknown number as unsupported, never as a default.
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
/* Returns the status of a class. */
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

/* FerryNode.kind: the meaning of its bytes or children. */
#define FERRY_NONE 1       /* nothing */
#define FERRY_BOOL 2       /* one byte, 0 or 1 */
#define FERRY_INT 3        /* two's complement, little-endian, at least one byte */
#define FERRY_FLOAT 4      /* a double, little-endian */
#define FERRY_COMPLEX 5    /* two doubles, little-endian */
#define FERRY_TEXT 6       /* UTF-8 */
#define FERRY_BYTES 7      /* any bytes */
#define FERRY_LIST 8       /* its children */
#define FERRY_TUPLE 9      /* its children */
#define FERRY_SET 10       /* its children */
#define FERRY_MAP 11       /* key, value, key, value; values have only the kinds up to here and FERRY_NUMBERS */
#define FERRY_TENSOR 12    /* the tensor's id, a uint32_t, little-endian */
#define FERRY_OBJECT 13    /* an object of a class that only its format understands: its parts */
#define FERRY_ATTRIBUTED 14 /* a value, then the attributes that were set on it */
#define FERRY_NUMBERS 15   /* elements of the dtype that class_name names, little-endian */

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

/* Takes the reason of a failure: the message first, then details such as file, tensor, offset, expected, found. */
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

typedef struct FerryHostTable FerryHostTable;
typedef struct { const FerryHostTable *table; void *self; } FerryHost;
typedef struct FerryObjectTable FerryObjectTable;
typedef struct { const FerryObjectTable *table; void *self; } FerryObject;
typedef struct FerryRegistrarTable FerryRegistrarTable;
typedef struct { const FerryRegistrarTable *table; void *self; } FerryRegistrar;
typedef struct FerryContextTable FerryContextTable;
typedef struct { const FerryContextTable *table; void *self; } FerryContext;
typedef struct FerrySourceTable FerrySourceTable;
typedef struct { const FerrySourceTable *table; void *self; } FerrySource;
typedef struct FerryNameSinkTable FerryNameSinkTable;
typedef struct { const FerryNameSinkTable *table; void *self; } FerryNameSink;
typedef struct FerryNumberSinkTable FerryNumberSinkTable;
typedef struct { const FerryNumberSinkTable *table; void *self; } FerryNumberSink;
typedef struct FerryByteSinkTable FerryByteSinkTable;
typedef struct { const FerryByteSinkTable *table; void *self; } FerryByteSink;
typedef struct FerryLossSinkTable FerryLossSinkTable;
typedef struct { const FerryLossSinkTable *table; void *self; } FerryLossSink;
typedef struct FerryDescriptionTable FerryDescriptionTable;
typedef struct { const FerryDescriptionTable *table; void *self; } FerryDescription;
typedef struct FerryCatalogSinkTable FerryCatalogSinkTable;
typedef struct { const FerryCatalogSinkTable *table; void *self; } FerryCatalogSink;
typedef struct FerryValueSinkTable FerryValueSinkTable;
typedef struct { const FerryValueSinkTable *table; void *self; } FerryValueSink;
typedef struct FerryNodeSinkTable FerryNodeSinkTable;
typedef struct { const FerryNodeSinkTable *table; void *self; } FerryNodeSink;
typedef struct FerryCatalogViewTable FerryCatalogViewTable;
typedef struct { const FerryCatalogViewTable *table; void *self; } FerryCatalogView;
typedef struct FerryLayoutSinkTable FerryLayoutSinkTable;
typedef struct { const FerryLayoutSinkTable *table; void *self; } FerryLayoutSink;
typedef struct FerryDigestsTable FerryDigestsTable;
typedef struct { const FerryDigestsTable *table; void *self; } FerryDigests;
typedef struct FerrySealSinkTable FerrySealSinkTable;
typedef struct { const FerrySealSinkTable *table; void *self; } FerrySealSink;
typedef struct FerryFormatTable FerryFormatTable;
typedef struct { const FerryFormatTable *table; void *self; } FerryFormat;
typedef struct FerryTensorReaderTable FerryTensorReaderTable;
typedef struct { const FerryTensorReaderTable *table; void *self; } FerryTensorReader;
typedef struct FerryTensorDecoderTable FerryTensorDecoderTable;
typedef struct { const FerryTensorDecoderTable *table; void *self; } FerryTensorDecoder;
typedef struct FerryTensorWriterTable FerryTensorWriterTable;
typedef struct { const FerryTensorWriterTable *table; void *self; } FerryTensorWriter;
typedef struct FerryTensorPlanTable FerryTensorPlanTable;
typedef struct { const FerryTensorPlanTable *table; void *self; } FerryTensorPlan;
typedef struct FerryRecordReaderTable FerryRecordReaderTable;
typedef struct { const FerryRecordReaderTable *table; void *self; } FerryRecordReader;
typedef struct FerrySplitSinkTable FerrySplitSinkTable;
typedef struct { const FerrySplitSinkTable *table; void *self; } FerrySplitSink;
typedef struct FerrySkippedSinkTable FerrySkippedSinkTable;
typedef struct { const FerrySkippedSinkTable *table; void *self; } FerrySkippedSink;
typedef struct FerryPredicateTable FerryPredicateTable;
typedef struct { const FerryPredicateTable *table; void *self; } FerryPredicate;
typedef struct FerryRecordSetTable FerryRecordSetTable;
typedef struct { const FerryRecordSetTable *table; void *self; } FerryRecordSet;
typedef struct FerryRecordWriterTable FerryRecordWriterTable;
typedef struct { const FerryRecordWriterTable *table; void *self; } FerryRecordWriter;
typedef struct FerryPiecesTable FerryPiecesTable;
typedef struct { const FerryPiecesTable *table; void *self; } FerryPieces;
typedef struct FerryWrittenFilesTable FerryWrittenFilesTable;
typedef struct { const FerryWrittenFilesTable *table; void *self; } FerryWrittenFiles;
typedef struct FerryRecordPlanTable FerryRecordPlanTable;
typedef struct { const FerryRecordPlanTable *table; void *self; } FerryRecordPlan;

/* Content that the other side does not hold. */
typedef struct {
  size_t size;
  /* The word of the SDK's `LossKind`. */
  FerryText kind;
  /* 0 lost, 1 changed, 2 a note; an unknown number counts as 0. */
  uint32_t severity;
  /* Whether the user asked for it. */
  uint8_t asked;
  /* A tensor name, a path in the tree, or a file. */
  FerryText what;
  /* Why it was not carried. */
  FerryText why;
} FerryLoss;

/* An option of a format. */
typedef struct {
  size_t size;
  /* 0 of the reader, 1 of the writer. */
  uint32_t side;
  /* Key of the option. */
  FerryText key;
  /* 0 text, 1 bool, 2 integer, 3 size, 4 one of `choices`, 5 a source, 6 a list of texts,
   * each of which is passed as a separate pair. A host treats any other number as text. */
  uint32_t kind;
  /* Allowed words, for kind 4. */
  FerryTexts choices;
  /* Default value: none or one. */
  FerryTexts defaults;
  /* Help for users. */
  FerryText help;
} FerryFormatOption;

/* The name and the capabilities of a format. */
typedef struct {
  size_t size;
  /* Id for `--from` and `--to`: lowercase letters, digits, dashes. */
  FerryText id;
  /* Display name. */
  FerryText title;
  /* The bits of the SDK's `Capabilities`. */
  uint64_t capabilities;
  /* Raised whenever the same input and options would give different bytes. */
  uint32_t output_revision;
} FerryIdentity;

/* Bytes that each file of a format has. */
typedef struct {
  size_t size;
  /* Offset from the start of the file, or distance from its end. */
  uint64_t offset;
  /* Bytes at that offset. */
  FerryBytes bytes;
  /* Bits of each byte to compare; as long as `bytes`, or empty to compare all bits. */
  FerryBytes mask;
  /* Whether `offset` is counted from the end of the file. */
  uint8_t from_end;
} FerryMagic;

/* The place of bytes of tensors. */
typedef struct {
  size_t size;
  /* 0 in a file, 1 encoded, 2 inline, 3 joined from ranges of earlier storages. */
  uint32_t kind;
  /* 0 little, 1 big. */
  uint32_t byte_order;
  /* Kind 0: the file. */
  uint32_t file;
  /* Kind 0: offset in the file. */
  uint64_t offset;
  /* Length in bytes, as tensors see it. */
  uint64_t len;
  /* Kind 1: the handle that is passed to the decoder. */
  uint64_t handle;
  /* Kind 2: the bytes. */
  FerryBytes bytes;
  /* Kind 3: for each range its storage, its offset in that storage, and its length. None of
   * the storages is itself joined, and all have this byte order. */
  FerryNumbers ranges;
  /* The number of the SDK's `DigestAlgorithm`; 0 if there is no digest. */
  uint32_t digest_algorithm;
  /* The digest that the file stores for these bytes. */
  FerryBytes digest;
} FerryStorage;

/* The memory layout of a dtype's elements. */
typedef struct {
  size_t size;
  /* Name of the dtype. */
  FerryText name;
  /* Number of elements that share a block. */
  uint32_t block_elements;
  /* Bytes of a block; 0 if the length depends on the values. */
  uint32_t block_bytes;
  /* Number of bytes that are reversed together if byte orders differ. */
  uint32_t swap_unit;
} FerryDtype;

/* A tensor that a reader found. */
typedef struct {
  size_t size;
  /* Name of the tensor. */
  FerryText name;
  /* The number that `dtype` returned. */
  uint32_t dtype;
  /* Dimensions, in elements. */
  FerryNumbers shape;
  /* 0 contiguous in one storage, row-major; 1 in blocks; 2 in tiles of one shape. */
  uint32_t kind;
  /* Kind 0: the storage. Kind 2 without `tiles`: the storage of the first tile. */
  uint32_t storage;
  /* Kind 0: offset in the storage, in bytes. */
  uint64_t offset;
  /* Kind 1: for each block its storage, its offset, its origin and shape (rank numbers
   * each), and its strides (rank numbers, two's complement). */
  FerryNumbers blocks;
  /* Kind 2: the shape of a tile. */
  FerryNumbers tile;
  /* Kind 2: the order of the elements in a tile: 0 row-major, 1 column-major. */
  uint32_t order;
  /* Kind 2: how tiles that reach past the end of the tensor are stored: 0 only the part
   * inside, 1 whole tiles. */
  uint32_t edges;
  /* Kind 2: the storage of each tile, in row-major order of the tiles; `UINT32_MAX` for an
   * absent tile. */
  FerryIds tiles;
  /* Kind 2 without `tiles`: the number of tiles, in storages with consecutive ids. */
  uint32_t tile_count;
  /* Kind 2: the storage of one element, which absent tiles repeat; `UINT32_MAX` for none. */
  uint32_t fill;
} FerryTensor;

/* A node of the tree of non-tensor state. */
typedef struct {
  size_t size;
  /* The number of the SDK's `NodeKind`. */
  uint32_t kind;
  /* Class of an object. */
  FerryText class_name;
  /* Bytes of the node itself. */
  FerryBytes bytes;
  /* Child nodes, in order. */
  FerryIds children;
} FerryNode;

/* A region of a tensor, and the requested form of its elements. */
typedef struct {
  size_t size;
  /* The tensor. */
  uint32_t tensor;
  /* Whether only a region of the tensor is meant. */
  uint8_t is_region;
  /* Origin of the region, followed by its shape. */
  FerryNumbers region;
  /* 0 C, 1 Fortran. */
  uint32_t order;
  /* 0 little, 1 big. */
  uint32_t byte_order;
} FerryTensorRegion;

/* A file of the output. */
typedef struct {
  size_t size;
  /* Path in the output folder. */
  FerryText path;
  /* 0 data, 1 index. */
  uint32_t role;
  /* 0 laid out, 1 streamed by the plan, 2 written after all others. */
  uint32_t kind;
  /* Kind 1: the tensors in the file. */
  FerryIds tensors;
} FerryOutputFile;

/* Bytes of a tensor in a file. */
typedef struct {
  size_t size;
  /* The file. */
  uint32_t file;
  /* The tensor. */
  uint32_t tensor;
  /* Whether only a region of the tensor is meant. */
  uint8_t is_region;
  /* Origin of the region, followed by its shape. */
  FerryNumbers region;
  /* 0 C, 1 Fortran. */
  uint32_t order;
  /* 0 little, 1 big. */
  uint32_t byte_order;
} FerryTensorPart;

/* Raw bytes of a storage in a file. */
typedef struct {
  size_t size;
  /* The file. */
  uint32_t file;
  /* The storage. */
  uint32_t storage;
  /* Offset in the storage. */
  uint64_t offset;
  /* Number of bytes. */
  uint64_t len;
  /* Number of bytes that are reversed together if the storage is big-endian. */
  uint32_t swap_unit;
} FerryStoragePart;

/* Bytes of a file of another input, which an option of kind 5 names. */
typedef struct {
  size_t size;
  /* The output file. */
  uint32_t file;
  /* The path that was passed to `Context.open`. */
  FerryText source;
  /* Name of the file in that input. */
  FerryText name;
  /* Offset in that file. */
  uint64_t offset;
  /* Number of bytes. */
  uint64_t len;
} FerrySourceCopy;

/* Bytes of a file that the plan encodes. */
typedef struct {
  size_t size;
  /* The file. */
  uint32_t file;
  /* Length in bytes; `UINT64_MAX` if it is not known in advance. */
  uint64_t len;
  /* The tensors in the segment. */
  FerryIds tensors;
  /* Whether the segment holds only a region of its single tensor. */
  uint8_t is_region;
  /* Origin of the region, followed by its shape. */
  FerryNumbers region;
} FerryEncodedSegment;

/* A request for a digest of bytes of a file. */
typedef struct {
  size_t size;
  /* The file. */
  uint32_t file;
  /* Offset of the first byte. */
  uint64_t start;
  /* Offset after the last byte. */
  uint64_t end;
  /* The number of the SDK's `DigestAlgorithm`. */
  uint32_t algorithm;
} FerryDigestRequest;

/* A part of the input that is read independently. */
typedef struct {
  size_t size;
  /* Name of its file. */
  FerryText file;
  /* Offset of its first byte. */
  uint64_t offset;
  /* Length in bytes. */
  uint64_t bytes;
  /* Number of records; `UINT64_MAX` if unknown. */
  uint64_t records;
} FerrySplit;

/* A record that was skipped. */
typedef struct {
  size_t size;
  /* Name of its file. */
  FerryText file;
  /* Number of the record; `UINT64_MAX` if unknown. */
  uint64_t record;
  /* Offset of its first byte. */
  uint64_t offset;
  /* Why it was skipped. */
  FerryText why;
} FerrySkipped;

/* The requested rows and columns. */
typedef struct {
  size_t size;
  /* The split. */
  uint32_t split;
  /* Whether only the fields in `columns` are requested. */
  uint8_t is_projected;
  /* The fields, in ascending order: for each the length of its path, then the path: the
   * index of a column, then indices within structs. */
  FerryIds columns;
  /* First requested row of the split, counted before any comparison. */
  uint64_t first_row;
  /* Maximum number of rows from there; `UINT64_MAX` for all. */
  uint64_t limit;
  /* Maximum rows of a batch. */
  uint64_t rows;
  /* Approximate bytes of a batch. */
  uint64_t bytes;
} FerryScan;

/* The requested output of rows. */
typedef struct {
  size_t size;
  /* Number of rows; `UINT64_MAX` if unknown. */
  uint64_t rows;
  /* 0 a file, 1 a folder. */
  uint32_t target_kind;
  /* Name of the file. */
  FerryText target_name;
} FerryRecordOutput;

/* The program, as seen by a library's `init`. */
struct FerryHostTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Returns the revision of the boundary that the host has. */
  int32_t (*revision)(void *self, uint32_t *major, uint32_t *minor, FerryErrorSink err);
  /* Shows the user a line, as `Context.log` does. */
  int32_t (*log)(void *self, uint32_t level, FerryText message, FerryErrorSink err);
};

/* An object whose kind is passed next to it as text. Its table has only the slots that every
 * table begins with. */
struct FerryObjectTable {
  size_t size;
  FERRY_COMMON_SLOTS
};

/* Takes what a library offers. */
struct FerryRegistrarTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Adds an object of a kind: `format`. An unknown kind is unsupported; a library that can
   * do without it may ignore that error. */
  int32_t (*add)(void *self, FerryText kind, FerryObject object, FerryErrorSink err);
};

/* What a plugin may know about the run. */
struct FerryContextTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Returns a limit by its name, such as `header_bytes` or `memory_bytes`. `UINT64_MAX`
   * means that the host does not know the limit; use your own default then. */
  int32_t (*limit)(void *self, FerryText name, uint64_t *value, FerryErrorSink err);
  /* Returns whether the user has canceled the run. */
  int32_t (*cancelled)(void *self, uint8_t *cancelled, FerryErrorSink err);
  /* Shows the user a line. `level`: 0 error, 1 warning, 2 note, 3 detail (not shown). Any
   * other number counts as a note. */
  int32_t (*log)(void *self, uint32_t level, FerryText message, FerryErrorSink err);
  /* Reports the progress of a long call: `done` of `total` bytes of the input. */
  int32_t (*progress)(void *self, uint64_t done, uint64_t total, FerryErrorSink err);
  /* Returns what the result is for: the bits of the SDK's `Purpose`. Ignore unknown bits. */
  int32_t (*purpose)(void *self, uint32_t *purpose, FerryErrorSink err);
  /* Returns how many threads a call may use. */
  int32_t (*threads)(void *self, uint32_t *threads, FerryErrorSink err);
  /* Opens the input that an option of kind 5 names. */
  int32_t (*open)(void *self, FerryText path, FerrySource *source, FerryErrorSink err);
  /* Returns a fact by its name; `UINT64_MAX` if the host does not know the name.
   * `output_is_new`: 1 if the output is a new folder. `input_is_folder`: 1 if
   * `input_folder` returns a folder. */
  int32_t (*attribute)(void *self, FerryText name, uint64_t *value, FerryErrorSink err);
  /* Opens the folder of the model that is converted. The attribute `input_is_folder` says
   * whether there is one. Files opened here count as part of the output. */
  int32_t (*input_folder)(void *self, FerrySource *source, FerryErrorSink err);
};

/* The files of the input. The plugin may keep the object if the call gives it away. */
struct FerrySourceTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Returns what the user named. `kind`: 0 a file, 1 a folder, 2 a prefix. */
  int32_t (*entry)(void *self, uint32_t *kind, FerryText *name, FerryErrorSink err);
  /* Opens a file of the folder by its name. */
  int32_t (*open)(void *self, FerryText name, uint32_t *file, FerryErrorSink err);
  /* Returns whether there is a file with this name. */
  int32_t (*exists)(void *self, FerryText name, uint8_t *exists, FerryErrorSink err);
  /* Lists the names of files that begin with `prefix`, sorted, without folders. */
  int32_t (*list)(void *self, FerryText prefix, FerryNameSink names, FerryErrorSink err);
  /* Lists the folders in a folder, sorted. */
  int32_t (*folders)(void *self, FerryText folder, FerryNameSink names, FerryErrorSink err);
  /* Returns the length and the name of an open file. A `len` of `UINT64_MAX` means that the
   * length is not known; a plugin that needs it cannot read such a file. */
  int32_t (*info)(void *self, uint32_t file, uint64_t *len, FerryText *name, FerryErrorSink err);
  /* Fills the whole buffer from an offset, or fails. */
  int32_t (*read_at)(void *self, uint32_t file, uint64_t offset, FerryBytesMut buffer,
      FerryErrorSink err);
  /* Fills the whole buffer with ranges, one after the other, or fails. A range is three
   * numbers: file, offset, length. */
  int32_t (*read_ranges)(void *self, FerryNumbers ranges, FerryBytesMut buffer, FerryErrorSink err);
  /* Announces ranges that will be read soon, in the form of `read_ranges`. */
  int32_t (*advise)(void *self, FerryNumbers ranges, FerryErrorSink err);
};

/* Takes names, or other texts. */
struct FerryNameSinkTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Adds a name. */
  int32_t (*name)(void *self, FerryText name, FerryErrorSink err);
};

/* Takes numbers. */
struct FerryNumberSinkTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Adds some numbers, in order. */
  int32_t (*numbers)(void *self, FerryNumbers numbers, FerryErrorSink err);
};

/* Takes bytes in order. */
struct FerryByteSinkTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Appends bytes. */
  int32_t (*write)(void *self, FerryBytes bytes, FerryErrorSink err);
};

/* Takes losses of rows or of their files. */
struct FerryLossSinkTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Adds a loss. */
  int32_t (*loss)(void *self, const FerryLoss *loss, FerryErrorSink err);
};

/* Takes a format's description. */
struct FerryDescriptionTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Sets the name and the capabilities. Must be called first. */
  int32_t (*identity)(void *self, const FerryIdentity *identity, FerryErrorSink err);
  /* Adds a file name ending, with its dot. */
  int32_t (*suffix)(void *self, FerryText suffix, FerryErrorSink err);
  /* Adds a magic. */
  int32_t (*magic)(void *self, const FerryMagic *magic, FerryErrorSink err);
  /* Adds the name of a file in a folder of this format; `*` matches any run of characters. */
  int32_t (*member)(void *self, FerryText pattern, FerryErrorSink err);
  /* Adds an option of the reader or the writer. */
  int32_t (*option)(void *self, const FerryFormatOption *option, FerryErrorSink err);
  /* Adds a fact about the format by its name, such as `specification`: where the format is
   * specified. The host ignores unknown names. */
  int32_t (*attribute)(void *self, FerryText name, FerryText value, FerryErrorSink err);
};

/* Takes what a reader finds. */
struct FerryCatalogSinkTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Adds a storage, which holds bytes of tensors. */
  int32_t (*storage)(void *self, const FerryStorage *storage, uint32_t *id, FerryErrorSink err);
  /* Declares a dtype, before the first tensor that has it. */
  int32_t (*dtype)(void *self, const FerryDtype *dtype, uint32_t *id, FerryErrorSink err);
  /* Adds a tensor. */
  int32_t (*tensor)(void *self, const FerryTensor *tensor, uint32_t *id, FerryErrorSink err);
  /* Adds a node of a value, after its children, which are nodes of values too. No node is a
   * tensor. */
  int32_t (*value)(void *self, const FerryNode *node, uint32_t *id, FerryErrorSink err);
  /* Adds a metadata entry: a key, and a number that `value` returned. */
  int32_t (*metadata)(void *self, FerryText key, uint32_t value, FerryErrorSink err);
  /* Adds an attribute of a tensor: a key, and a number that `value` returned. */
  int32_t (*attribute)(void *self, uint32_t tensor, FerryText key, uint32_t value,
      FerryErrorSink err);
  /* Adds a node of the tree, after its children. */
  int32_t (*node)(void *self, const FerryNode *node, uint32_t *id, FerryErrorSink err);
  /* Sets the root of the tree. */
  int32_t (*root)(void *self, uint32_t node, FerryErrorSink err);
  /* Reports content of the input that the catalog does not hold. */
  int32_t (*loss)(void *self, const FerryLoss *loss, FerryErrorSink err);
  /* Sets the format that the input was converted from, if it is not the reader's own. */
  int32_t (*origin)(void *self, FerryText format, FerryErrorSink err);
  /* Adds a function or class that the input asks its reader to call. It was not called. */
  int32_t (*global)(void *self, FerryText name, FerryErrorSink err);
  /* Adds a step, in the syntax of `--step`, that is applied before all others when the
   * catalog is converted. */
  int32_t (*step)(void *self, FerryText step, FerryErrorSink err);
  /* Adds a file to the folder that the tensors are written to. */
  int32_t (*sidecar)(void *self, FerryText name, FerryBytes bytes, FerryErrorSink err);
};

/* Takes keys with their values. For each entry, add the nodes, children before their parents,
 * then the key with the number of the last node. */
struct FerryValueSinkTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Adds a node of a value. */
  int32_t (*value)(void *self, const FerryNode *node, uint32_t *id, FerryErrorSink err);
  /* Adds a key with a number that `value` returned. */
  int32_t (*entry)(void *self, FerryText key, uint32_t value, FerryErrorSink err);
};

/* Takes one node. */
struct FerryNodeSinkTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Sets the node. */
  int32_t (*node)(void *self, const FerryNode *node, FerryErrorSink err);
};

/* The catalog that a writer lays out. */
struct FerryCatalogViewTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Returns the number of tensors and storages, and the root of the tree; `UINT32_MAX` if
   * there is no tree. */
  int32_t (*counts)(void *self, uint32_t *tensors, uint32_t *storages, uint32_t *root,
      FerryErrorSink err);
  /* Returns a tensor: its length in bytes, and the first tensor that it is tied to, or
   * itself. */
  int32_t (*tensor)(void *self, uint32_t id, FerryText *name, uint32_t *dtype, FerryNumbers *shape,
      uint64_t *bytes, uint32_t *tied_to, FerryErrorSink err);
  /* Lists at most `most` blocks of a tensor from number `from`, in the form of
   * `FerryTensor`; fewer or none at the end. */
  int32_t (*blocks)(void *self, uint32_t tensor, uint64_t from, uint64_t most,
      FerryNumberSink blocks, FerryErrorSink err);
  /* Returns the properties of a dtype that a tensor has. */
  int32_t (*dtype)(void *self, uint32_t id, FerryNameSink name, uint32_t *block_elements,
      uint32_t *block_bytes, uint32_t *swap_unit, FerryErrorSink err);
  /* Returns a storage. */
  int32_t (*storage)(void *self, uint32_t id, uint64_t *len, uint32_t *byte_order,
      FerryErrorSink err);
  /* Lists the metadata, sorted by key. */
  int32_t (*metadata)(void *self, FerryValueSink entries, FerryErrorSink err);
  /* Lists the attributes of a tensor, sorted by key. */
  int32_t (*attributes)(void *self, uint32_t tensor, FerryValueSink entries, FerryErrorSink err);
  /* Returns a node of the tree. */
  int32_t (*node)(void *self, uint32_t id, FerryNodeSink node, FerryErrorSink err);
  /* Returns the format that the tensors came from. */
  int32_t (*origin)(void *self, FerryNameSink name, FerryErrorSink err);
  /* Fills the whole buffer with logical bytes (row-major, little-endian) of a tensor, from
   * an offset. */
  int32_t (*read)(void *self, uint32_t tensor, uint64_t offset, FerryBytesMut buffer,
      FerryErrorSink err);
  /* Fills the buffer with all bytes of a region. */
  int32_t (*read_region)(void *self, const FerryTensorRegion *region, FerryBytesMut buffer,
      FerryErrorSink err);
};

/* Takes the plan of a writer. */
struct FerryLayoutSinkTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Adds a file. */
  int32_t (*file)(void *self, const FerryOutputFile *file, uint32_t *id, FerryErrorSink err);
  /* Appends literal bytes, and returns their offset. */
  int32_t (*bytes)(void *self, uint32_t file, FerryBytes bytes, uint64_t *offset,
      FerryErrorSink err);
  /* Appends a tensor or part of a tensor. */
  int32_t (*tensor)(void *self, const FerryTensorPart *part, uint64_t *offset, FerryErrorSink err);
  /* Appends a storage or part of a storage. */
  int32_t (*storage)(void *self, const FerryStoragePart *part, uint64_t *offset,
      FerryErrorSink err);
  /* Appends bytes of another input. */
  int32_t (*copy)(void *self, const FerrySourceCopy *copy, uint64_t *offset, FerryErrorSink err);
  /* Appends zeros. */
  int32_t (*pad)(void *self, uint32_t file, uint64_t len, uint64_t *offset, FerryErrorSink err);
  /* Appends bytes that `encode` produces. A segment of unknown length counts as one byte in
   * the offsets of what follows it and in the ranges of digests. */
  int32_t (*encoded)(void *self, const FerryEncodedSegment *segment, uint32_t *id,
      uint64_t *offset, FerryErrorSink err);
  /* Appends bytes that `seal` supplies. */
  int32_t (*deferred)(void *self, uint32_t file, uint64_t len, uint32_t *id, FerryErrorSink err);
  /* Requests a digest for `seal`. */
  int32_t (*digest)(void *self, const FerryDigestRequest *digest, uint32_t *id, FerryErrorSink err);
  /* Declares that the output holds `tensor` as `of`, which it is tied to. */
  int32_t (*alias)(void *self, uint32_t tensor, uint32_t of, FerryErrorSink err);
  /* Leaves a tensor out of the output. */
  int32_t (*omit)(void *self, uint32_t tensor, FerryText why, FerryErrorSink err);
  /* Reports content that the output does not hold. */
  int32_t (*loss)(void *self, const FerryLoss *loss, FerryErrorSink err);
  /* Declares the name of a tensor in the output, if it differs. */
  int32_t (*written_as)(void *self, uint32_t tensor, FerryText name, FerryErrorSink err);
  /* Declares that a tensor is part of the writer's literal bytes. */
  int32_t (*held_in_bytes)(void *self, uint32_t tensor, FerryErrorSink err);
  /* Declares files of an earlier output that this one replaces. */
  int32_t (*supersedes)(void *self, FerryText pattern, uint32_t role, FerryErrorSink err);
};

/* The digests that a layout requested. */
struct FerryDigestsTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Returns a digest. */
  int32_t (*get)(void *self, uint32_t id, FerryByteSink value, uint32_t *algorithm,
      FerryErrorSink err);
  /* Returns the final place of an encoded segment, and the note of `encode`. */
  int32_t (*encoded)(void *self, uint32_t id, FerryByteSink note, uint64_t *offset, uint64_t *len,
      FerryErrorSink err);
  /* Returns the length of a file in bytes. */
  int32_t (*file_len)(void *self, uint32_t file, uint64_t *len, FerryErrorSink err);
};

/* Takes the bytes that depend on digests. */
struct FerrySealSinkTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Sets all bytes of a deferred segment. */
  int32_t (*deferred)(void *self, uint32_t id, FerryBytes bytes, FerryErrorSink err);
  /* Appends to a late file. */
  int32_t (*late)(void *self, uint32_t file, FerryBytes bytes, FerryErrorSink err);
};

/* A format. */
struct FerryFormatTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Describes the format. */
  int32_t (*describe)(void *self, FerryDescription description, FerryErrorSink err);
  /* Returns how likely this input is of the format, from 0 to 100; -1 to use the declared
   * magic, suffixes and members. */
  int32_t (*probe)(void *self, FerrySource source, FerryContext context, int64_t *score,
      FerryErrorSink err);
  /* Creates a reader with these options, which are checked, with defaults filled in. */
  int32_t (*tensor_reader)(void *self, FerryPairs options, FerryTensorReader *reader,
      FerryErrorSink err);
  /* Creates a writer with these options. */
  int32_t (*tensor_writer)(void *self, FerryPairs options, FerryTensorWriter *writer,
      FerryErrorSink err);
  /* Creates a reader of rows with these options. */
  int32_t (*record_reader)(void *self, FerryPairs options, FerryRecordReader *reader,
      FerryErrorSink err);
  /* Creates a writer of rows with these options. */
  int32_t (*record_writer)(void *self, FerryPairs options, FerryRecordWriter *writer,
      FerryErrorSink err);
};

/* A reader of tensors: describes what an input holds. */
struct FerryTensorReaderTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Fills the catalog, and returns the decoder of its encoded storages. */
  int32_t (*read)(void *self, FerrySource source, FerryCatalogSink catalog, FerryContext context,
      FerryTensorDecoder *decoder, FerryErrorSink err);
};

/* Decodes the encoded storages of an input that was read. */
struct FerryTensorDecoderTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Pushes all decoded bytes of a storage, in order. */
  int32_t (*decode)(void *self, FerrySource source, uint64_t handle, FerryByteSink output,
      FerryContext context, FerryErrorSink err);
};

/* A writer of tensors: plans an output. */
struct FerryTensorWriterTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Plans the files. `target_kind`: 0 a file, 1 a folder. */
  int32_t (*plan)(void *self, FerryCatalogView catalog, uint32_t target_kind,
      FerryText target_name, FerryLayoutSink layout, FerryContext context, FerryTensorPlan *plan,
      FerryErrorSink err);
  /* Lists, before `plan`, the steps that turn this catalog into one that the output can
   * hold, in the syntax of `--step`. */
  int32_t (*steps)(void *self, FerryCatalogView catalog, FerryNameSink steps, FerryContext context,
      FerryErrorSink err);
};

/* The plan of an output of tensors. */
struct FerryTensorPlanTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Pushes the bytes of a streamed file, in order. */
  int32_t (*stream)(void *self, uint32_t file, FerryCatalogView catalog, FerryByteSink output,
      FerryContext context, FerryErrorSink err);
  /* Pushes the bytes of an encoded segment, in order. The host encodes many segments at
   * once. `note` is kept for `seal`. */
  int32_t (*encode)(void *self, uint32_t id, FerryCatalogView catalog, FerryByteSink output,
      FerryByteSink note, FerryContext context, FerryErrorSink err);
  /* Supplies the deferred bytes and the late files. */
  int32_t (*seal)(void *self, FerryDigests digests, FerrySealSink output, FerryContext context,
      FerryErrorSink err);
};

/* A reader of rows: opens inputs. */
struct FerryRecordReaderTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Opens an input, which the set keeps. */
  int32_t (*open)(void *self, FerrySource source, FerryLossSink losses, FerryContext context,
      FerryRecordSet *set, FerryErrorSink err);
  /* Writes an index, and returns the number of records and bytes that it covers. */
  int32_t (*index)(void *self, FerrySource source, FerryByteSink output, FerryContext context,
      uint64_t *records, uint64_t *bytes, FerryErrorSink err);
};

/* Takes splits. */
struct FerrySplitSinkTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Adds the next split. */
  int32_t (*split)(void *self, const FerrySplit *split, FerryErrorSink err);
};

/* Takes records that were skipped. */
struct FerrySkippedSinkTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Adds a skipped record. */
  int32_t (*skipped)(void *self, const FerrySkipped *skipped, FerryErrorSink err);
};

/* Comparisons that are all true of every row that the host keeps. A plugin may leave out rows
 * for which one is false; the host checks again. */
struct FerryPredicateTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Returns the number of comparisons. */
  int32_t (*count)(void *self, uint32_t *count, FerryErrorSink err);
  /* Returns a comparison: a path as in `FerryScan`, the values to compare with, and the
   * comparator: 0 equal, 1 unequal, 2 less, 3 less or equal, 4 greater, 5 greater or equal,
   * 6 missing, 7 not missing, 8 equal to one of the values. A plugin ignores a comparison
   * whose comparator or values it does not know. */
  int32_t (*comparison)(void *self, uint32_t index, FerryNodeSink values, FerryIds *column,
      uint32_t *comparator, FerryErrorSink err);
};

/* An opened input of rows. */
struct FerryRecordSetTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Returns the columns. */
  int32_t (*schema)(void *self, struct ArrowSchema *schema, FerryErrorSink err);
  /* Lists the splits, in order. */
  int32_t (*splits)(void *self, FerrySplitSink splits, FerryErrorSink err);
  /* Returns a stream of rows. If the stream reports an error, `fault` returns the full error
   * for its ticket. */
  int32_t (*scan)(void *self, const FerryScan *scan, FerryPredicate predicate,
      struct ArrowArrayStream *stream, uint64_t *ticket, FerryErrorSink err);
  /* Fails once with the error of the stream of this ticket. */
  int32_t (*fault)(void *self, uint64_t ticket, FerryErrorSink err);
  /* Writes at most `most` records of a split as JSON lines. Sets `written` to `UINT64_MAX`
   * if the format has no mapping of its own. */
  int32_t (*json)(void *self, uint32_t split, uint64_t most, FerryByteSink output,
      uint64_t *written, FerryErrorSink err);
  /* Lists the records that were skipped. */
  int32_t (*skipped)(void *self, FerrySkippedSink skipped, FerryErrorSink err);
  /* Reports content of the input that the columns do not hold. */
  int32_t (*losses)(void *self, FerryLossSink losses, FerryErrorSink err);
};

/* A writer of rows: plans outputs. */
struct FerryRecordWriterTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Plans the files. */
  int32_t (*plan)(void *self, struct ArrowSchema *schema, const FerryRecordOutput *output,
      FerryLossSink losses, FerryContext context, FerryRecordPlan *plan, FerryErrorSink err);
};

/* The encoded pieces of a file, in order. */
struct FerryPiecesTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Returns the number of pieces. */
  int32_t (*count)(void *self, uint64_t *count, FerryErrorSink err);
  /* Returns a piece: its place, and the note of `encode`. */
  int32_t (*piece)(void *self, uint64_t index, uint64_t *offset, uint64_t *len, uint64_t *rows,
      FerryBytes *note, FerryErrorSink err);
};

/* The finished files of an output of rows, in order. */
struct FerryWrittenFilesTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Returns the number of files. */
  int32_t (*count)(void *self, uint64_t *count, FerryErrorSink err);
  /* Returns a file: its name, its length in bytes, and its number of pieces. */
  int32_t (*file)(void *self, uint64_t index, FerryText *name, uint64_t *bytes, uint64_t *pieces,
      FerryErrorSink err);
  /* Returns a piece of a file, as in `FerryPieces`. */
  int32_t (*piece)(void *self, uint64_t file, uint64_t index, uint64_t *offset, uint64_t *len,
      uint64_t *rows, FerryBytes *note, FerryErrorSink err);
};

/* The plan of an output of rows. */
struct FerryRecordPlanTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Lists the names of its files; none for a plan that rolls. */
  int32_t (*files)(void *self, FerryNameSink names, FerryErrorSink err);
  /* Returns when a file is full and the next one begins. `kind`: 0 the plan does not roll, 1
   * at `size` rows, 2 before a piece that would make the file longer than `size` bytes. */
  int32_t (*roll)(void *self, uint32_t *kind, uint64_t *size, FerryErrorSink err);
  /* Returns the name of a file of a plan that rolls, once the number of files is known. */
  int32_t (*name)(void *self, uint32_t file, uint32_t count, FerryNameSink name,
      FerryErrorSink err);
  /* Lists patterns of names of files of an earlier output that this one replaces. */
  int32_t (*supersedes)(void *self, FerryNameSink patterns, FerryErrorSink err);
  /* Returns how many rows and bytes are encoded together. */
  int32_t (*group)(void *self, uint64_t *rows, uint64_t *bytes, FerryErrorSink err);
  /* Writes the head of a file. */
  int32_t (*begin)(void *self, uint32_t file, FerryByteSink output, FerryErrorSink err);
  /* Encodes rows as a piece. The host encodes many pieces at once, before it is known which
   * file they go to. `note` is kept for `finish`. */
  int32_t (*encode)(void *self, struct ArrowArrayStream *batches, FerryByteSink output,
      FerryLossSink losses, FerryByteSink note, FerryErrorSink err);
  /* Writes the tail of a file. */
  int32_t (*finish)(void *self, uint32_t file, FerryPieces pieces, FerryByteSink output,
      FerryErrorSink err);
  /* Lists the names of files that describe all others. */
  int32_t (*sealed)(void *self, FerryNameSink names, FerryErrorSink err);
  /* Writes all bytes of one of the `sealed` files, once all others are finished. */
  int32_t (*seal)(void *self, uint32_t sealed, FerryWrittenFiles files, FerryByteSink output,
      FerryErrorSink err);
  /* Lists notes for the user. */
  int32_t (*notes)(void *self, FerryNameSink notes, FerryErrorSink err);
};

/* The data that a library exports as FERRY_PLUGIN. Texts are UTF-8, cut to fit, padded with zeros. */
typedef struct {
  uint8_t magic[16];
  uint32_t size;
  uint32_t major;
  uint32_t minor_built;  /* the revision of this header */
  uint32_t minor_needed; /* the minimum revision of the host */
  uint32_t flags;        /* 0 for libraries in C */
  uint8_t name[64];
  uint8_t version[32];
  uint8_t sdk[32];
  int32_t (*init)(FerryHost host, FerryRegistrar registrar, FerryErrorSink err);
} FerryManifest;

#define FERRY_MAGIC {'f', 'e', 'r', 'r', 'y', ' ', 'p', 'l', 'u', 'g', 'i', 'n', 0, 0, 0, 2}
#define FERRY_MAJOR 1
#define FERRY_MINOR 0

/* Returns whether the other side offers a slot. */
#define FERRY_HAS(object, slot) \
  ((object).table->size >= (size_t)((const char *)(&(object).table->slot + 1) - (const char *)(object).table) && \
   (object).table->slot)

#ifdef __cplusplus
}
#endif
#endif
