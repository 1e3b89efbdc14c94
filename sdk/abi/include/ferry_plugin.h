/* The boundary between ferry and its format plugins, for C and whatever calls C.
 *
 * This file is made of the declarations in the crate tensorferry-abi; the rules stand there and in the guide for
 * authors. In short:
 * - An object is { table, self }. A table lies in static memory, begins with its size, and grows at its end. A
 *   slot past the end of the other side's table, or null, is not offered: see FERRY_HAS.
 *   A plugin may leave null what it does not need: every drop and extension; of FerryFormat all but describe; of
 *   FerryTensorDecoder and FerryTensorPlan all; FerryRecordReader.index; of FerryRecordSet fault, json, skipped and
 *   losses; of FerryRecordPlan all but encode, and files or what rolls instead.
 * - A call returns FERRY_DONE, or a status whose high 16 bits are a class; say why with ferry's error sink first.
 *   Results are written where pointers say, on success alone. What fails with FERRY_CANCELLED says that the user has
 *   ended the run: give it back.
 * - Arguments are borrowed until the call returns, also objects, texts and slices. Objects that leave as results,
 *   and those that FerryRegistrar.add and FerryRecordReader.open are given, belong to the receiver, who calls
 *   their drop once. Texts and slices that are results stay valid for as long as the object that was called.
 * - An object is dropped after those that it made: a set after its streams, a reader after its set.
 * - Formats, readers, writers, decoders, plans and sets are called from many threads at once. Sinks belong to the
 *   thread that was given them. Libraries are never unloaded.
 * - Text is UTF-8, not terminated. Numbers that are not known are unsupported, never a default.
 * - No exception and no longjmp leaves a function.
 */
#ifndef FERRY_PLUGIN_H
#define FERRY_PLUGIN_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

#define FERRY_DONE 0
/* A status of a class. */
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

/* FerryNode.kind: what its bytes are, or its children. */
#define FERRY_NONE 1       /* nothing */
#define FERRY_BOOL 2       /* one byte, 0 or 1 */
#define FERRY_INT 3        /* two's complement, little-endian, at least one byte */
#define FERRY_FLOAT 4      /* a double, little-endian */
#define FERRY_COMPLEX 5    /* two of them */
#define FERRY_TEXT 6       /* UTF-8 */
#define FERRY_BYTES 7      /* any bytes */
#define FERRY_LIST 8       /* its children */
#define FERRY_TUPLE 9      /* its children */
#define FERRY_SET 10       /* its children */
#define FERRY_MAP 11       /* key, value, key, value; the kinds up to here and FERRY_NUMBERS are those of values */
#define FERRY_TENSOR 12    /* the tensor's id, a uint32_t, little-endian */
#define FERRY_OBJECT 13    /* an object of a class that its format alone understands: its parts */
#define FERRY_ATTRIBUTED 14 /* a value, then what was set on it */
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

/* Takes what a call failed with: the message first, then file, tensor, offset, expected, found. */
struct FerryErrorSinkTable {
  size_t size;
  int32_t (*drop)(void *self, FerryErrorSink err);
  int32_t (*extension)(void *self, FerryText id, const void **table, FerryErrorSink err);
  int32_t (*message)(void *self, FerryText message);
  int32_t (*detail)(void *self, FerryText name, FerryText value);
};

/* What every table begins with, after its size. */
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

/* What the other side does not hold. */
typedef struct {
  size_t size;
  /* The word of the SDK's `LossKind`. */
  FerryText kind;
  /* 0 lost, 1 changed, 2 a note; a number that is not known is the first. */
  uint32_t severity;
  /* Whether it follows from what the user asked for. */
  uint8_t asked;
  /* A tensor's name, a path in the tree, a file. */
  FerryText what;
  /* Why it was not carried. */
  FerryText why;
} FerryLoss;

/* An option of a format. */
typedef struct {
  size_t size;
  /* 0 of the reader, 1 of the writer. */
  uint32_t side;
  /* Its key. */
  FerryText key;
  /* 0 text, 1 bool, 2 integer, 3 size, 4 one of `choices`, 5 a source, 6 texts, one for each time that it is
   * given, each with its own pair; a host treats another as text. */
  uint32_t kind;
  /* What it may be. */
  FerryTexts choices;
  /* What it is where nothing is said; none or one. */
  FerryTexts defaults;
  /* What a user reads about it. */
  FerryText help;
} FerryFormatOption;

/* What a format is called and can do. */
typedef struct {
  size_t size;
  /* The id for `--from` and `--to`: lowercase, digits, dashes. */
  FerryText id;
  /* What a person calls it. */
  FerryText title;
  /* The bits of the SDK's `Capabilities`. */
  uint64_t capabilities;
  /* Raised whenever the same input and options would give other bytes. */
  uint32_t output_revision;
} FerryIdentity;

/* Bytes that each file of a format has. */
typedef struct {
  size_t size;
  /* Where: from the file's start, or how far before its end. */
  uint64_t offset;
  /* What stands there. */
  FerryBytes bytes;
  /* Which bits of each byte count, as many bytes; none where all do. */
  FerryBytes mask;
  /* Whether `offset` is counted from the file's end. */
  uint8_t from_end;
} FerryMagic;

/* Bytes of tensors, where they lie. */
typedef struct {
  size_t size;
  /* 0 in a file, 1 encoded, 2 inline, 3 joined of ranges of storages that were given before. */
  uint32_t kind;
  /* 0 little, 1 big. */
  uint32_t byte_order;
  /* Kind 0: the file. */
  uint32_t file;
  /* Kind 0: where in the file. */
  uint64_t offset;
  /* Bytes, as tensors see them. */
  uint64_t len;
  /* Kind 1: what the decoder is asked with. */
  uint64_t handle;
  /* Kind 2: the bytes. */
  FerryBytes bytes;
  /* Kind 3: for each range its storage, where it begins there, and its length. None is itself joined, and
   * all are of this byte order. */
  FerryNumbers ranges;
  /* The number of the SDK's `DigestAlgorithm`; 0 where no digest is known. */
  uint32_t digest_algorithm;
  /* The digest that the file itself has of these bytes. */
  FerryBytes digest;
} FerryStorage;

/* How elements of a dtype lie in memory. */
typedef struct {
  size_t size;
  /* Its name. */
  FerryText name;
  /* How many elements share a block. */
  uint32_t block_elements;
  /* Bytes of a block; 0 where the values decide. */
  uint32_t block_bytes;
  /* How many bytes are reversed together where byte orders differ. */
  uint32_t swap_unit;
} FerryDtype;

/* A tensor that a reader found. */
typedef struct {
  size_t size;
  /* Its name. */
  FerryText name;
  /* What `dtype` gave. */
  uint32_t dtype;
  /* Its shape. */
  FerryNumbers shape;
  /* 0 it lies in one storage, row by row; 1 it lies in blocks; 2 it lies in tiles of one shape. */
  uint32_t kind;
  /* Kind 0: the storage. Kind 2 without `tiles`: that of the first tile. */
  uint32_t storage;
  /* Kind 0: where in the storage, in bytes. */
  uint64_t offset;
  /* Kind 1: for each block its storage, its offset, its origin and shape (rank numbers each), and its strides
   * (rank numbers, two's complement). */
  FerryNumbers blocks;
  /* Kind 2: the shape of a tile. */
  FerryNumbers tile;
  /* Kind 2: the order of the elements in a tile: 0 row-major, 1 column-major. */
  uint32_t order;
  /* Kind 2: how tiles are stored that reach past the tensor's end: 0 what is inside alone, 1 whole tiles. */
  uint32_t edges;
  /* Kind 2: the storage of each tile, in row-major order of the tiles; `UINT32_MAX` for one that is absent. */
  FerryIds tiles;
  /* Kind 2 without `tiles`: how many tiles there are, in storages of consecutive ids. */
  uint32_t tile_count;
  /* Kind 2: the storage of one element, which absent tiles repeat; `UINT32_MAX`: none. */
  uint32_t fill;
} FerryTensor;

/* A node of the tree of what is no tensor. */
typedef struct {
  size_t size;
  /* The number of the SDK's `NodeKind`. */
  uint32_t kind;
  /* The class of an object. */
  FerryText class_name;
  /* Its own bytes. */
  FerryBytes bytes;
  /* Its children. */
  FerryIds children;
} FerryNode;

/* A region of a tensor, and how its elements are wanted. */
typedef struct {
  size_t size;
  /* The tensor. */
  uint32_t tensor;
  /* Whether a region of it is meant, and not all. */
  uint8_t is_region;
  /* The region's origin, then its shape. */
  FerryNumbers region;
  /* 0 C, 1 Fortran. */
  uint32_t order;
  /* 0 little, 1 big. */
  uint32_t byte_order;
} FerryTensorRegion;

/* A file of the output. */
typedef struct {
  size_t size;
  /* Its name in the output's folder. */
  FerryText path;
  /* 0 data, 1 index. */
  uint32_t role;
  /* 0 laid out, 1 streamed by the plan, 2 given when all others are there. */
  uint32_t kind;
  /* Kind 1: the tensors that it holds. */
  FerryIds tensors;
} FerryOutputFile;

/* Bytes of a tensor in a file. */
typedef struct {
  size_t size;
  /* The file. */
  uint32_t file;
  /* The tensor. */
  uint32_t tensor;
  /* Whether a region of it is meant, and not all. */
  uint8_t is_region;
  /* The region's origin, then its shape. */
  FerryNumbers region;
  /* 0 C, 1 Fortran. */
  uint32_t order;
  /* 0 little, 1 big. */
  uint32_t byte_order;
} FerryTensorPart;

/* Bytes of a storage in a file, as they lie. */
typedef struct {
  size_t size;
  /* The file. */
  uint32_t file;
  /* The storage. */
  uint32_t storage;
  /* Where in the storage. */
  uint64_t offset;
  /* How many. */
  uint64_t len;
  /* How many are reversed together if they are big-endian. */
  uint32_t swap_unit;
} FerryStoragePart;

/* Bytes of a file of another input, which an option of kind 5 names. */
typedef struct {
  size_t size;
  /* The file of the output. */
  uint32_t file;
  /* What `Context.open` was asked for. */
  FerryText source;
  /* The file's name there. */
  FerryText name;
  /* Where in that file. */
  uint64_t offset;
  /* How many. */
  uint64_t len;
} FerrySourceCopy;

/* Bytes of a file that the plan encodes. */
typedef struct {
  size_t size;
  /* The file. */
  uint32_t file;
  /* How many bytes it will have; all bits are set where that is known afterwards. */
  uint64_t len;
  /* The tensors that it holds. */
  FerryIds tensors;
  /* Whether it holds a region of the one tensor, and not all. */
  uint8_t is_region;
  /* The region's origin, then its shape. */
  FerryNumbers region;
} FerryEncodedSegment;

/* A digest of a file's bytes. */
typedef struct {
  size_t size;
  /* The file. */
  uint32_t file;
  /* The first byte. */
  uint64_t start;
  /* The byte after the last. */
  uint64_t end;
  /* The number of the SDK's `DigestAlgorithm`. */
  uint32_t algorithm;
} FerryDigestRequest;

/* A part of the input that is read on its own. */
typedef struct {
  size_t size;
  /* Its file. */
  FerryText file;
  /* Where it begins. */
  uint64_t offset;
  /* Its bytes. */
  uint64_t bytes;
  /* Its records; all bits are set where that is not known. */
  uint64_t records;
} FerrySplit;

/* A record that was passed over. */
typedef struct {
  size_t size;
  /* Its file. */
  FerryText file;
  /* Its number; all bits are set where that is not known. */
  uint64_t record;
  /* Where it begins. */
  uint64_t offset;
  /* Why. */
  FerryText why;
} FerrySkipped;

/* Which rows are wanted, and how. */
typedef struct {
  size_t size;
  /* The split. */
  uint32_t split;
  /* Whether `columns` says which, and not all are wanted. */
  uint8_t is_projected;
  /* The fields, in ascending order: for each the length of its path, and the path: the place of a column, then
   * places within structs. */
  FerryIds columns;
  /* The first row of the split that is wanted, before any comparison. */
  uint64_t first_row;
  /* At most so many rows from there on; all bits are set where all are wanted. */
  uint64_t limit;
  /* At most so many rows a batch. */
  uint64_t rows;
  /* About so many bytes a batch. */
  uint64_t bytes;
} FerryScan;

/* What an output of rows is to be. */
typedef struct {
  size_t size;
  /* How many rows there will be; all bits are set where that is not known. */
  uint64_t rows;
  /* 0 a file, 1 a folder. */
  uint32_t target_kind;
  /* The file's name. */
  FerryText target_name;
} FerryRecordOutput;

/* The program, as a library's `init` sees it. */
struct FerryHostTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* The revision of the boundary that it has. */
  int32_t (*revision)(void *self, uint32_t *major, uint32_t *minor, FerryErrorSink err);
  /* A line for the user, as of `Context.log`. */
  int32_t (*log)(void *self, uint32_t level, FerryText message, FerryErrorSink err);
};

/* An object of a kind that a text beside it names: what every table begins with. */
struct FerryObjectTable {
  size_t size;
  FERRY_COMMON_SLOTS
};

/* Takes what a library offers. */
struct FerryRegistrarTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* An object of a kind: `format`. One that the host does not know is unsupported, which a library that can do
   * without may pass over. */
  int32_t (*add)(void *self, FerryText kind, FerryObject object, FerryErrorSink err);
};

/* What a plugin may know of the run. */
struct FerryContextTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* A limit by its name, as `header_bytes` or `memory_bytes`; all bits are set where the host knows no such limit,
   * and the plugin's own default stands. */
  int32_t (*limit)(void *self, FerryText name, uint64_t *value, FerryErrorSink err);
  /* Whether the user ended the run. */
  int32_t (*cancelled)(void *self, uint8_t *cancelled, FerryErrorSink err);
  /* A line for the user. `level`: 0 error, 1 warning, 2 note, 3 detail, which is not shown; another one is taken
   * for a note. */
  int32_t (*log)(void *self, uint32_t level, FerryText message, FerryErrorSink err);
  /* How many bytes of the input a long call has gone through, of how many. */
  int32_t (*progress)(void *self, uint64_t done, uint64_t total, FerryErrorSink err);
  /* What the result is for: the bits of the SDK's `Purpose`. Bits that are not known say nothing. */
  int32_t (*purpose)(void *self, uint32_t *purpose, FerryErrorSink err);
  /* How many threads a call may use. */
  int32_t (*threads)(void *self, uint32_t *threads, FerryErrorSink err);
  /* The input that an option of kind 5 names. */
  int32_t (*open)(void *self, FerryText path, FerrySource *source, FerryErrorSink err);
  /* A fact by its name; all bits are set where the host does not know it. `output_is_new`: 1 where nothing
   * of the output is there yet. `input_is_folder`: 1 where `input_folder` gives one. */
  int32_t (*attribute)(void *self, FerryText name, uint64_t *value, FerryErrorSink err);
  /* The folder of the model that an output is planned of; the attribute `input_is_folder` says whether it is one.
   * What is opened in it counts as held by the output. */
  int32_t (*input_folder)(void *self, FerrySource *source, FerryErrorSink err);
};

/* The input's files. It may be kept where it is given. */
struct FerrySourceTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* What the user named. `kind`: 0 a file, 1 a folder, 2 a prefix. */
  int32_t (*entry)(void *self, uint32_t *kind, FerryText *name, FerryErrorSink err);
  /* Opens a file by its name in the folder. */
  int32_t (*open)(void *self, FerryText name, uint32_t *file, FerryErrorSink err);
  /* Whether there is such a file. */
  int32_t (*exists)(void *self, FerryText name, uint8_t *exists, FerryErrorSink err);
  /* The names that begin so, in order, without folders. */
  int32_t (*list)(void *self, FerryText prefix, FerryNameSink names, FerryErrorSink err);
  /* The folders in a folder, in order. */
  int32_t (*folders)(void *self, FerryText folder, FerryNameSink names, FerryErrorSink err);
  /* The length and the name of an open file. All bits of `len` are set where the length is not known: a plugin that
   * needs it cannot read such a file. */
  int32_t (*info)(void *self, uint32_t file, uint64_t *len, FerryText *name, FerryErrorSink err);
  /* Fills the buffer from an offset on, or fails. */
  int32_t (*read_at)(void *self, uint32_t file, uint64_t offset, FerryBytesMut buffer,
      FerryErrorSink err);
  /* Fills the buffer with ranges one after the other, or fails; for each its file, its offset and its length. */
  int32_t (*read_ranges)(void *self, FerryNumbers ranges, FerryBytesMut buffer, FerryErrorSink err);
  /* Ranges that will be read soon, as of `read_ranges`. */
  int32_t (*advise)(void *self, FerryNumbers ranges, FerryErrorSink err);
};

/* Takes names, or other texts. */
struct FerryNameSinkTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* One. */
  int32_t (*name)(void *self, FerryText name, FerryErrorSink err);
};

/* Takes numbers. */
struct FerryNumberSinkTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Some of them, in order. */
  int32_t (*numbers)(void *self, FerryNumbers numbers, FerryErrorSink err);
};

/* Takes bytes in order. */
struct FerryByteSinkTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* The next ones. */
  int32_t (*write)(void *self, FerryBytes bytes, FerryErrorSink err);
};

/* Takes what rows or their files cannot say. */
struct FerryLossSinkTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* One of them. */
  int32_t (*loss)(void *self, const FerryLoss *loss, FerryErrorSink err);
};

/* Takes a format's description. */
struct FerryDescriptionTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* First: what it is called and can do. */
  int32_t (*identity)(void *self, const FerryIdentity *identity, FerryErrorSink err);
  /* A file name ending, with its dot. */
  int32_t (*suffix)(void *self, FerryText suffix, FerryErrorSink err);
  /* Bytes at an offset. */
  int32_t (*magic)(void *self, const FerryMagic *magic, FerryErrorSink err);
  /* A file name that a folder of this format has; `*` stands for any run of characters. */
  int32_t (*member)(void *self, FerryText pattern, FerryErrorSink err);
  /* An option of its reader or its writer. */
  int32_t (*option)(void *self, const FerryFormatOption *option, FerryErrorSink err);
  /* A fact about the format by its name: `specification`, where the format is written down. Names that the host
   * does not know are passed over. */
  int32_t (*attribute)(void *self, FerryText name, FerryText value, FerryErrorSink err);
};

/* Takes what a reader finds. */
struct FerryCatalogSinkTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Bytes of tensors. */
  int32_t (*storage)(void *self, const FerryStorage *storage, uint32_t *id, FerryErrorSink err);
  /* A dtype, before the first tensor that has it. */
  int32_t (*dtype)(void *self, const FerryDtype *dtype, uint32_t *id, FerryErrorSink err);
  /* A tensor. */
  int32_t (*tensor)(void *self, const FerryTensor *tensor, uint32_t *id, FerryErrorSink err);
  /* A node of a value, after its children, which are nodes of values too; none is a tensor. */
  int32_t (*value)(void *self, const FerryNode *node, uint32_t *id, FerryErrorSink err);
  /* An entry of the metadata: a key with what `value` gave. */
  int32_t (*metadata)(void *self, FerryText key, uint32_t value, FerryErrorSink err);
  /* An attribute of a tensor: a key with what `value` gave. */
  int32_t (*attribute)(void *self, uint32_t tensor, FerryText key, uint32_t value,
      FerryErrorSink err);
  /* A node, after its children. */
  int32_t (*node)(void *self, const FerryNode *node, uint32_t *id, FerryErrorSink err);
  /* The node that all others hang on. */
  int32_t (*root)(void *self, uint32_t node, FerryErrorSink err);
  /* What the catalog does not hold of the input. */
  int32_t (*loss)(void *self, const FerryLoss *loss, FerryErrorSink err);
  /* The format that the input was written in, where that is not the reader's own. */
  int32_t (*origin)(void *self, FerryText format, FerryErrorSink err);
  /* A name that the input wants to have called, and was not. */
  int32_t (*global)(void *self, FerryText name, FerryErrorSink err);
  /* A step, as users write it, that the catalog goes through where it is converted, before all others. */
  int32_t (*step)(void *self, FerryText step, FerryErrorSink err);
  /* A file that goes into the folder that the tensors are written to. */
  int32_t (*sidecar)(void *self, FerryText name, FerryBytes bytes, FerryErrorSink err);
};

/* Takes keys with their values: for each the nodes, children before their parents, then the key with the number
 * of the last one. */
struct FerryValueSinkTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* A node of a value. */
  int32_t (*value)(void *self, const FerryNode *node, uint32_t *id, FerryErrorSink err);
  /* A key with what `value` gave. */
  int32_t (*entry)(void *self, FerryText key, uint32_t value, FerryErrorSink err);
};

/* Takes a node. */
struct FerryNodeSinkTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* It. */
  int32_t (*node)(void *self, const FerryNode *node, FerryErrorSink err);
};

/* The catalog that a writer lays out. */
struct FerryCatalogViewTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* How many tensors and storages there are, and the root; all bits of `root` are set where there is none. */
  int32_t (*counts)(void *self, uint32_t *tensors, uint32_t *storages, uint32_t *root,
      FerryErrorSink err);
  /* A tensor: its bytes, and the first tensor that it is tied to or itself. */
  int32_t (*tensor)(void *self, uint32_t id, FerryText *name, uint32_t *dtype, FerryNumbers *shape,
      uint64_t *bytes, uint32_t *tied_to, FerryErrorSink err);
  /* The blocks of a tensor from number `from` on, at most so many, as in `FerryTensor`; fewer, or none, at the
   * end of them. */
  int32_t (*blocks)(void *self, uint32_t tensor, uint64_t from, uint64_t most,
      FerryNumberSink blocks, FerryErrorSink err);
  /* A dtype that a tensor has. */
  int32_t (*dtype)(void *self, uint32_t id, FerryNameSink name, uint32_t *block_elements,
      uint32_t *block_bytes, uint32_t *swap_unit, FerryErrorSink err);
  /* A storage. */
  int32_t (*storage)(void *self, uint32_t id, uint64_t *len, uint32_t *byte_order,
      FerryErrorSink err);
  /* All metadata, in order of the keys. */
  int32_t (*metadata)(void *self, FerryValueSink entries, FerryErrorSink err);
  /* The attributes of a tensor, in order of the keys. */
  int32_t (*attributes)(void *self, uint32_t tensor, FerryValueSink entries, FerryErrorSink err);
  /* A node. */
  int32_t (*node)(void *self, uint32_t id, FerryNodeSink node, FerryErrorSink err);
  /* The format that the input was written in. */
  int32_t (*origin)(void *self, FerryNameSink name, FerryErrorSink err);
  /* Fills the buffer with a tensor's logical bytes (row-major, little-endian) from an offset on. */
  int32_t (*read)(void *self, uint32_t tensor, uint64_t offset, FerryBytesMut buffer,
      FerryErrorSink err);
  /* Fills the buffer with all bytes of a region. */
  int32_t (*read_region)(void *self, const FerryTensorRegion *region, FerryBytesMut buffer,
      FerryErrorSink err);
};

/* Takes what a writer plans. */
struct FerryLayoutSinkTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* A file. */
  int32_t (*file)(void *self, const FerryOutputFile *file, uint32_t *id, FerryErrorSink err);
  /* Bytes; gives where they lie. */
  int32_t (*bytes)(void *self, uint32_t file, FerryBytes bytes, uint64_t *offset,
      FerryErrorSink err);
  /* A tensor or a part of it. */
  int32_t (*tensor)(void *self, const FerryTensorPart *part, uint64_t *offset, FerryErrorSink err);
  /* A storage or a part of it. */
  int32_t (*storage)(void *self, const FerryStoragePart *part, uint64_t *offset,
      FerryErrorSink err);
  /* Bytes of another input. */
  int32_t (*copy)(void *self, const FerrySourceCopy *copy, uint64_t *offset, FerryErrorSink err);
  /* Zeros. */
  int32_t (*pad)(void *self, uint32_t file, uint64_t len, uint64_t *offset, FerryErrorSink err);
  /* Bytes that `encode` gives. One of a length that is not known counts as one byte in the offsets of what
   * follows it and in the ranges of digests. */
  int32_t (*encoded)(void *self, const FerryEncodedSegment *segment, uint32_t *id,
      uint64_t *offset, FerryErrorSink err);
  /* Bytes that `seal` gives. */
  int32_t (*deferred)(void *self, uint32_t file, uint64_t len, uint32_t *id, FerryErrorSink err);
  /* A digest that `seal` needs. */
  int32_t (*digest)(void *self, const FerryDigestRequest *digest, uint32_t *id, FerryErrorSink err);
  /* A tensor that the output holds as another one. */
  int32_t (*alias)(void *self, uint32_t tensor, uint32_t of, FerryErrorSink err);
  /* A tensor that the output does not hold. */
  int32_t (*omit)(void *self, uint32_t tensor, FerryText why, FerryErrorSink err);
  /* What the output does not hold. */
  int32_t (*loss)(void *self, const FerryLoss *loss, FerryErrorSink err);
  /* The name that a tensor has in the output, where it is another one. */
  int32_t (*written_as)(void *self, uint32_t tensor, FerryText name, FerryErrorSink err);
  /* A tensor that stands in the writer's own bytes. */
  int32_t (*held_in_bytes)(void *self, uint32_t tensor, FerryErrorSink err);
  /* Files of an earlier output that this one replaces. */
  int32_t (*supersedes)(void *self, FerryText pattern, uint32_t role, FerryErrorSink err);
};

/* The digests that a layout asked for. */
struct FerryDigestsTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* One of them. */
  int32_t (*get)(void *self, uint32_t id, FerryByteSink value, uint32_t *algorithm,
      FerryErrorSink err);
  /* Where an encoded segment came to lie, and what `encode` said of it. */
  int32_t (*encoded)(void *self, uint32_t id, FerryByteSink note, uint64_t *offset, uint64_t *len,
      FerryErrorSink err);
  /* The length of a file. */
  int32_t (*file_len)(void *self, uint32_t file, uint64_t *len, FerryErrorSink err);
};

/* Takes what needed digests. */
struct FerrySealSinkTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* All bytes of a deferred segment. */
  int32_t (*deferred)(void *self, uint32_t id, FerryBytes bytes, FerryErrorSink err);
  /* Appends to a late file. */
  int32_t (*late)(void *self, uint32_t file, FerryBytes bytes, FerryErrorSink err);
};

/* A format. */
struct FerryFormatTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* What it is. */
  int32_t (*describe)(void *self, FerryDescription description, FerryErrorSink err);
  /* How sure it is of this input, from 0 to 100; -1 where the declared magic, suffixes and members decide. */
  int32_t (*probe)(void *self, FerrySource source, FerryContext context, int64_t *score,
      FerryErrorSink err);
  /* A reader with these options, which were checked, and defaults filled in. */
  int32_t (*tensor_reader)(void *self, FerryPairs options, FerryTensorReader *reader,
      FerryErrorSink err);
  /* A writer. */
  int32_t (*tensor_writer)(void *self, FerryPairs options, FerryTensorWriter *writer,
      FerryErrorSink err);
  /* A reader of rows. */
  int32_t (*record_reader)(void *self, FerryPairs options, FerryRecordReader *reader,
      FerryErrorSink err);
  /* A writer of rows. */
  int32_t (*record_writer)(void *self, FerryPairs options, FerryRecordWriter *writer,
      FerryErrorSink err);
};

/* Describes what an input holds. */
struct FerryTensorReaderTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Fills the catalog, and gives what decodes its encoded storages. */
  int32_t (*read)(void *self, FerrySource source, FerryCatalogSink catalog, FerryContext context,
      FerryTensorDecoder *decoder, FerryErrorSink err);
};

/* Decodes the encoded storages of an input that was read. */
struct FerryTensorDecoderTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Pushes all bytes of a storage, in order. */
  int32_t (*decode)(void *self, FerrySource source, uint64_t handle, FerryByteSink output,
      FerryContext context, FerryErrorSink err);
};

/* Describes an output. */
struct FerryTensorWriterTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Plans the files. `target_kind`: 0 a file, 1 a folder. */
  int32_t (*plan)(void *self, FerryCatalogView catalog, uint32_t target_kind,
      FerryText target_name, FerryLayoutSink layout, FerryContext context, FerryTensorPlan *plan,
      FerryErrorSink err);
  /* Before `plan`: the steps that make of this catalog one that the output can have, as users write them. */
  int32_t (*steps)(void *self, FerryCatalogView catalog, FerryNameSink steps, FerryContext context,
      FerryErrorSink err);
};

/* A plan of tensors in hand. */
struct FerryTensorPlanTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Pushes a streamed file's bytes, in order. */
  int32_t (*stream)(void *self, uint32_t file, FerryCatalogView catalog, FerryByteSink output,
      FerryContext context, FerryErrorSink err);
  /* Pushes an encoded segment's bytes, in order; many at once. `note` is for `seal`. */
  int32_t (*encode)(void *self, uint32_t id, FerryCatalogView catalog, FerryByteSink output,
      FerryByteSink note, FerryContext context, FerryErrorSink err);
  /* Gives the deferred bytes and the late files. */
  int32_t (*seal)(void *self, FerryDigests digests, FerrySealSink output, FerryContext context,
      FerryErrorSink err);
};

/* Opens inputs of rows. */
struct FerryRecordReaderTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Opens an input, which the set keeps. */
  int32_t (*open)(void *self, FerrySource source, FerryLossSink losses, FerryContext context,
      FerryRecordSet *set, FerryErrorSink err);
  /* Writes an index; gives the records and the bytes that it saw. */
  int32_t (*index)(void *self, FerrySource source, FerryByteSink output, FerryContext context,
      uint64_t *records, uint64_t *bytes, FerryErrorSink err);
};

/* Takes splits. */
struct FerrySplitSinkTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* One, in order. */
  int32_t (*split)(void *self, const FerrySplit *split, FerryErrorSink err);
};

/* Takes records that were passed over. */
struct FerrySkippedSinkTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* One. */
  int32_t (*skipped)(void *self, const FerrySkipped *skipped, FerryErrorSink err);
};

/* Comparisons that are all true of every row that the host goes on with. A plugin may leave out rows for which
 * one is not; the host looks again. */
struct FerryPredicateTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* How many there are. */
  int32_t (*count)(void *self, uint32_t *count, FerryErrorSink err);
  /* A comparison: a path as in `FerryScan`, what it is compared with, and how: 0 equal, 1 unequal, 2 less, 3 less or
   * equal, 4 greater, 5 greater or equal, 6 missing, 7 not missing, 8 equal to one of the values. A plugin ignores
   * a comparison whose number or values it does not know. */
  int32_t (*comparison)(void *self, uint32_t index, FerryNodeSink values, FerryIds *column,
      uint32_t *comparator, FerryErrorSink err);
};

/* An opened input of rows. */
struct FerryRecordSetTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Its columns. */
  int32_t (*schema)(void *self, struct ArrowSchema *schema, FerryErrorSink err);
  /* Its splits, in order. */
  int32_t (*splits)(void *self, FerrySplitSink splits, FerryErrorSink err);
  /* A stream of rows. When it reports an error, `fault` gives what is behind its ticket. */
  int32_t (*scan)(void *self, const FerryScan *scan, FerryPredicate predicate,
      struct ArrowArrayStream *stream, uint64_t *ticket, FerryErrorSink err);
  /* Fails with the error of the stream of this ticket, once. */
  int32_t (*fault)(void *self, uint64_t ticket, FerryErrorSink err);
  /* Writes a split's records as JSON lines, at most so many; all bits of `written` are set where the format has
   * no mapping of its own. */
  int32_t (*json)(void *self, uint32_t split, uint64_t most, FerryByteSink output,
      uint64_t *written, FerryErrorSink err);
  /* The records that were passed over. */
  int32_t (*skipped)(void *self, FerrySkippedSink skipped, FerryErrorSink err);
  /* What the columns do not hold of the input. */
  int32_t (*losses)(void *self, FerryLossSink losses, FerryErrorSink err);
};

/* Plans outputs of rows. */
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
  /* How many there are. */
  int32_t (*count)(void *self, uint64_t *count, FerryErrorSink err);
  /* A piece: where it lies, and what `encode` said of it. */
  int32_t (*piece)(void *self, uint64_t index, uint64_t *offset, uint64_t *len, uint64_t *rows,
      FerryBytes *note, FerryErrorSink err);
};

/* The files of an output of rows that are finished, in order. */
struct FerryWrittenFilesTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* How many there are. */
  int32_t (*count)(void *self, uint64_t *count, FerryErrorSink err);
  /* A file: its name, its bytes, and how many pieces it has. */
  int32_t (*file)(void *self, uint64_t index, FerryText *name, uint64_t *bytes, uint64_t *pieces,
      FerryErrorSink err);
  /* A piece of a file, as in `FerryPieces`. */
  int32_t (*piece)(void *self, uint64_t file, uint64_t index, uint64_t *offset, uint64_t *len,
      uint64_t *rows, FerryBytes *note, FerryErrorSink err);
};

/* A plan of rows in hand. */
struct FerryRecordPlanTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* The names of its files; none for a plan that rolls. */
  int32_t (*files)(void *self, FerryNameSink names, FerryErrorSink err);
  /* When a file is full and the next one begins. `kind`: 0 the plan does not roll, 1 at so many rows, 2 before a piece
   * with which it would have more than so many bytes. */
  int32_t (*roll)(void *self, uint32_t *kind, uint64_t *size, FerryErrorSink err);
  /* The name of a file of a plan that rolls, once it is known how many there are. */
  int32_t (*name)(void *self, uint32_t file, uint32_t count, FerryNameSink name,
      FerryErrorSink err);
  /* Patterns of the names of files of an earlier output that this one replaces. */
  int32_t (*supersedes)(void *self, FerryNameSink patterns, FerryErrorSink err);
  /* How many rows and bytes are encoded together. */
  int32_t (*group)(void *self, uint64_t *rows, uint64_t *bytes, FerryErrorSink err);
  /* What a file begins with. */
  int32_t (*begin)(void *self, uint32_t file, FerryByteSink output, FerryErrorSink err);
  /* Encodes rows; many pieces at once, before it is known which file they go to. `note` is for `finish`. */
  int32_t (*encode)(void *self, struct ArrowArrayStream *batches, FerryByteSink output,
      FerryLossSink losses, FerryByteSink note, FerryErrorSink err);
  /* What a file ends with. */
  int32_t (*finish)(void *self, uint32_t file, FerryPieces pieces, FerryByteSink output,
      FerryErrorSink err);
  /* The names of files over all others. */
  int32_t (*sealed)(void *self, FerryNameSink names, FerryErrorSink err);
  /* All bytes of one of those, once all others are finished. */
  int32_t (*seal)(void *self, uint32_t sealed, FerryWrittenFiles files, FerryByteSink output,
      FerryErrorSink err);
  /* What the user should know. */
  int32_t (*notes)(void *self, FerryNameSink notes, FerryErrorSink err);
};

/* What a library exports under the name FERRY_PLUGIN. Texts are UTF-8, cut to fit, padded with zeros. */
typedef struct {
  uint8_t magic[16];
  uint32_t size;
  uint32_t major;
  uint32_t minor_built;  /* the revision of this header */
  uint32_t minor_needed; /* the least that the host must have */
  uint32_t flags;        /* 0 for libraries in C */
  uint8_t name[64];
  uint8_t version[32];
  uint8_t sdk[32];
  int32_t (*init)(FerryHost host, FerryRegistrar registrar, FerryErrorSink err);
} FerryManifest;

#define FERRY_MAGIC {'f', 'e', 'r', 'r', 'y', ' ', 'p', 'l', 'u', 'g', 'i', 'n', 0, 0, 0, 2}
#define FERRY_MAJOR 1
#define FERRY_MINOR 0

/* Whether the other side offers a slot. */
#define FERRY_HAS(object, slot) \
  ((object).table->size >= (size_t)((const char *)(&(object).table->slot + 1) - (const char *)(object).table) && \
   (object).table->slot)

#ifdef __cplusplus
}
#endif
#endif
