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

/* Content that is lost or changed because the receiving side cannot represent it. */
typedef struct {
  size_t size;
  /* The kind of the loss, as the text form of the SDK's `LossKind`. */
  FerryText kind;
  /* The severity: 0 lost, 1 changed, 2 a note. An unknown number counts as 0. */
  uint32_t severity;
  /* Whether the user requested the loss. */
  uint8_t asked;
  /* The affected content: a tensor name, a path in the tree, or a file. */
  FerryText what;
  /* The reason for the loss. */
  FerryText why;
} FerryLoss;

/* An option of a format. */
typedef struct {
  size_t size;
  /* The side to which the option belongs: 0 the reader, 1 the writer. */
  uint32_t side;
  /* Key of the option. */
  FerryText key;
  /* The kind of the value: 0 text, 1 bool, 2 integer, 3 size, 4 one of `choices`, 5 a
   * source, 6 a list of strings. Each string in a list is passed as a separate pair. A host
   * treats any other number as text. */
  uint32_t kind;
  /* The allowed words for kind 4. */
  FerryTexts choices;
  /* The default value, as a list of zero or one words. */
  FerryTexts defaults;
  /* The help text for users. */
  FerryText help;
} FerryFormatOption;

/* The name and the capabilities of a format. */
typedef struct {
  size_t size;
  /* The id for `--from` and `--to`, which consists of lowercase letters, digits and dashes. */
  FerryText id;
  /* The display name of the format. */
  FerryText title;
  /* The capabilities of the format, as bits of the SDK's `Capabilities`. */
  uint64_t capabilities;
  /* A number that increases whenever the bytes that the same input and options produce
   * change. */
  uint32_t output_revision;
} FerryIdentity;

/* Bytes that are the same in every file of a format. */
typedef struct {
  size_t size;
  /* The offset of the magic from the start of the file, or its distance from the end. */
  uint64_t offset;
  /* The expected bytes at that offset. */
  FerryBytes bytes;
  /* A mask of the bits to compare in each byte. The mask is as long as `bytes`, or empty to
   * compare all bits. */
  FerryBytes mask;
  /* Whether `offset` is counted from the end of the file. */
  uint8_t from_end;
} FerryMagic;

/* A range of bytes that tensors refer to, and the location of the bytes. */
typedef struct {
  size_t size;
  /* The location of the bytes: 0 in a file, 1 encoded, 2 inline, 3 joined from ranges of
   * earlier storages. */
  uint32_t kind;
  /* The byte order: 0 little-endian, 1 big-endian. */
  uint32_t byte_order;
  /* Kind 0: the file that contains the bytes. */
  uint32_t file;
  /* Kind 0: the offset in that file. */
  uint64_t offset;
  /* The length in bytes, after decoding. */
  uint64_t len;
  /* Kind 1: the handle to pass to the decoder. */
  uint64_t handle;
  /* Kind 2: the bytes themselves. */
  FerryBytes bytes;
  /* Kind 3: for each range, its storage, its offset in that storage, and its length. None of
   * these storages is joined from others, and all of them have the byte order of this
   * storage. */
  FerryNumbers ranges;
  /* The number of the SDK's `DigestAlgorithm`, or 0 if the file has no digest. */
  uint32_t digest_algorithm;
  /* The digest that the file stores for these bytes. */
  FerryBytes digest;
} FerryStorage;

/* The memory layout of a dtype's elements. */
typedef struct {
  size_t size;
  /* Name of the dtype. */
  FerryText name;
  /* The number of elements in a block. */
  uint32_t block_elements;
  /* The number of bytes in a block, or 0 if the length depends on the values. */
  uint32_t block_bytes;
  /* The number of bytes to reverse as a unit if the byte orders differ. */
  uint32_t swap_unit;
} FerryDtype;

/* A tensor of the input, reported by a reader. */
typedef struct {
  size_t size;
  /* Name of the tensor. */
  FerryText name;
  /* The number of the dtype, as returned by `dtype`. */
  uint32_t dtype;
  /* The dimensions of the tensor, in elements. */
  FerryNumbers shape;
  /* The arrangement of the elements: 0 contiguous in one storage and row-major, 1 in blocks,
   * 2 in tiles of one shape. */
  uint32_t kind;
  /* Kind 0: the storage. Kind 2 without `tiles`: the storage of the first tile. */
  uint32_t storage;
  /* Kind 0: the offset in the storage, in bytes. */
  uint64_t offset;
  /* Kind 1: for each block, its storage, its offset, its origin, its shape and its strides.
   * The origin, shape and strides are lists with one number per dimension. Strides are in
   * two's complement. */
  FerryNumbers blocks;
  /* Kind 2: the shape of a tile. */
  FerryNumbers tile;
  /* Kind 2: the order of the elements in a tile. 0 is row-major, and 1 is column-major. */
  uint32_t order;
  /* Kind 2: the storage of tiles that extend past the end of the tensor. 0 stores only the
   * part inside the tensor, and 1 stores whole tiles. */
  uint32_t edges;
  /* Kind 2: the storage of each tile, in row-major order of the tiles. `UINT32_MAX` marks a
   * missing tile. */
  FerryIds tiles;
  /* Kind 2 without `tiles`: the number of tiles. The storages of the tiles have consecutive
   * ids. */
  uint32_t tile_count;
  /* Kind 2: the storage of the single element that fills missing tiles, or `UINT32_MAX` for
   * none. */
  uint32_t fill;
} FerryTensor;

/* A node of the tree of values that are not tensors. */
typedef struct {
  size_t size;
  /* The kind of the node, as a number of the SDK's `NodeKind`. */
  uint32_t kind;
  /* The class name, if the node is an object. */
  FerryText class_name;
  /* The value of the node, encoded as bytes. */
  FerryBytes bytes;
  /* The child nodes, in order. */
  FerryIds children;
} FerryNode;

/* A tensor or a region of a tensor, and the requested order of the elements and bytes. */
typedef struct {
  size_t size;
  /* The tensor. */
  uint32_t tensor;
  /* Whether `region` selects only a part of the tensor. */
  uint8_t is_region;
  /* The origin of the region, followed by the shape of the region. */
  FerryNumbers region;
  /* The order of the elements: 0 C, 1 Fortran. */
  uint32_t order;
  /* The byte order: 0 little-endian, 1 big-endian. */
  uint32_t byte_order;
} FerryTensorRegion;

/* A file of the output. */
typedef struct {
  size_t size;
  /* The path of the file, relative to the output folder. */
  FerryText path;
  /* The role of the file: 0 data, 1 index. */
  uint32_t role;
  /* How the file is written: 0 laid out in segments, 1 streamed by the plan, 2 after all
   * other files. */
  uint32_t kind;
  /* Kind 1: the tensors in the file. */
  FerryIds tensors;
} FerryOutputFile;

/* A tensor or a region of a tensor, to be written to a file. */
typedef struct {
  size_t size;
  /* The output file. */
  uint32_t file;
  /* The tensor. */
  uint32_t tensor;
  /* Whether `region` selects only a part of the tensor. */
  uint8_t is_region;
  /* The origin of the region, followed by the shape of the region. */
  FerryNumbers region;
  /* The order of the elements: 0 C, 1 Fortran. */
  uint32_t order;
  /* The byte order: 0 little-endian, 1 big-endian. */
  uint32_t byte_order;
} FerryTensorPart;

/* Bytes of a storage, to be written to a file without conversion. */
typedef struct {
  size_t size;
  /* The output file. */
  uint32_t file;
  /* The storage. */
  uint32_t storage;
  /* The offset of the first byte in the storage. */
  uint64_t offset;
  /* The number of bytes to write. */
  uint64_t len;
  /* The number of bytes to reverse as a unit if the storage is big-endian. */
  uint32_t swap_unit;
} FerryStoragePart;

/* Bytes to copy from a file of another input. An option of kind 5 names that input. */
typedef struct {
  size_t size;
  /* The output file. */
  uint32_t file;
  /* The path that was passed to `Context.open`. */
  FerryText source;
  /* The name of the source file in that input. */
  FerryText name;
  /* The offset of the first byte in the source file. */
  uint64_t offset;
  /* The number of bytes to copy. */
  uint64_t len;
} FerrySourceCopy;

/* A segment of a file that the plan encodes. */
typedef struct {
  size_t size;
  /* The output file. */
  uint32_t file;
  /* The length in bytes, or `UINT64_MAX` if it is not known in advance. */
  uint64_t len;
  /* The tensors that the segment contains. */
  FerryIds tensors;
  /* Whether the segment contains only a region of its single tensor. */
  uint8_t is_region;
  /* The origin of the region, followed by the shape of the region. */
  FerryNumbers region;
} FerryEncodedSegment;

/* A request for the digest of a range of bytes in an output file. */
typedef struct {
  size_t size;
  /* The output file. */
  uint32_t file;
  /* The offset of the first byte. */
  uint64_t start;
  /* The offset after the last byte. */
  uint64_t end;
  /* The number of the SDK's `DigestAlgorithm`. */
  uint32_t algorithm;
} FerryDigestRequest;

/* A part of a row input. The part can be read independently. */
typedef struct {
  size_t size;
  /* The name of the file that contains the split. */
  FerryText file;
  /* The offset of the split's first byte. */
  uint64_t offset;
  /* The length of the split in bytes. */
  uint64_t bytes;
  /* The number of records in the split, or `UINT64_MAX` if it is unknown. */
  uint64_t records;
} FerrySplit;

/* A record that the reader skipped. */
typedef struct {
  size_t size;
  /* The name of the file that contains the record. */
  FerryText file;
  /* The number of the record, or `UINT64_MAX` if it is unknown. */
  uint64_t record;
  /* The offset of the record's first byte. */
  uint64_t offset;
  /* The reason why the reader skipped the record. */
  FerryText why;
} FerrySkipped;

/* A request for rows and columns of a split. */
typedef struct {
  size_t size;
  /* The number of the split. */
  uint32_t split;
  /* Whether only the fields in `columns` are requested. */
  uint8_t is_projected;
  /* The requested fields, in ascending order. Each field is the length of its path, followed
   * by the path: the index of a column, then indices within structs. */
  FerryIds columns;
  /* The first requested row of the split. Rows are counted before any comparison. */
  uint64_t first_row;
  /* The maximum number of rows from `first_row`, or `UINT64_MAX` for all rows. */
  uint64_t limit;
  /* The maximum number of rows in a batch. */
  uint64_t rows;
  /* The approximate size of a batch in bytes. */
  uint64_t bytes;
} FerryScan;

/* A request for a row output. */
typedef struct {
  size_t size;
  /* The number of rows, or `UINT64_MAX` if it is unknown. */
  uint64_t rows;
  /* The kind of the target: 0 a file, 1 a folder. */
  uint32_t target_kind;
  /* The name of the target file. */
  FerryText target_name;
} FerryRecordOutput;

/* The host program, as passed to the `init` function of a library. */
struct FerryHostTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Returns the revision of the boundary that the host supports. */
  int32_t (*revision)(void *self, uint32_t *major, uint32_t *minor, FerryErrorSink err);
  /* Shows the user a line of text, like `Context.log`. */
  int32_t (*log)(void *self, uint32_t level, FerryText message, FerryErrorSink err);
};

/* An object whose kind is passed separately as text. The object's table contains only the
 * slots with which every table begins. */
struct FerryObjectTable {
  size_t size;
  FERRY_COMMON_SLOTS
};

/* Receives the objects that a library offers. */
struct FerryRegistrarTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Adds an object of the given kind, such as `format`. If the host does not know the kind,
   * the call fails with FERRY_UNSUPPORTED. A library may ignore that error if it does not
   * require the object. */
  int32_t (*add)(void *self, FerryText kind, FerryObject object, FerryErrorSink err);
};

/* Information for the plugin about the current run. */
struct FerryContextTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Returns a limit by its name, such as `header_bytes` or `memory_bytes`. If the host does
   * not know the limit, it returns `UINT64_MAX`. Use your own default then. */
  int32_t (*limit)(void *self, FerryText name, uint64_t *value, FerryErrorSink err);
  /* Returns whether the user has canceled the run. */
  int32_t (*cancelled)(void *self, uint8_t *cancelled, FerryErrorSink err);
  /* Shows the user a line of text. `level`: 0 error, 1 warning, 2 note, 3 detail (not
   * shown). Any other number counts as a note. */
  int32_t (*log)(void *self, uint32_t level, FerryText message, FerryErrorSink err);
  /* Reports the progress of a long call: it has processed `done` of the input's `total`
   * bytes. */
  int32_t (*progress)(void *self, uint64_t done, uint64_t total, FerryErrorSink err);
  /* Returns the purpose for which the input is read, as bits of the SDK's `Purpose`.
   * Ignore unknown bits. */
  int32_t (*purpose)(void *self, uint32_t *purpose, FerryErrorSink err);
  /* Returns the number of threads that a call may use. */
  int32_t (*threads)(void *self, uint32_t *threads, FerryErrorSink err);
  /* Opens an input that the user passed as the value of an option of kind 5. */
  int32_t (*open)(void *self, FerryText path, FerrySource *source, FerryErrorSink err);
  /* Returns an attribute of the run by its name, or `UINT64_MAX` if the host does not know
   * the name. `output_is_new` is 1 if the output is a new folder. `input_is_folder` is 1 if
   * `input_folder` returns a folder. */
  int32_t (*attribute)(void *self, FerryText name, uint64_t *value, FerryErrorSink err);
  /* Opens the folder of the model that is being converted. The attribute `input_is_folder`
   * reports whether there is such a folder. Files that are opened here count as part of the
   * output. */
  int32_t (*input_folder)(void *self, FerrySource *source, FerryErrorSink err);
};

/* The files of an input. If the call transfers ownership of the object, the plugin may keep
 * the object. */
struct FerrySourceTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Returns the kind and name of the input that the user passed. `kind`: 0 a file, 1 a
   * folder, 2 a prefix. */
  int32_t (*entry)(void *self, uint32_t *kind, FerryText *name, FerryErrorSink err);
  /* Opens a file of the input by its name. */
  int32_t (*open)(void *self, FerryText name, uint32_t *file, FerryErrorSink err);
  /* Returns whether the input contains a file with this name. */
  int32_t (*exists)(void *self, FerryText name, uint8_t *exists, FerryErrorSink err);
  /* Lists the files whose names begin with `prefix`, in sorted order. Folders are not
   * listed. */
  int32_t (*list)(void *self, FerryText prefix, FerryNameSink names, FerryErrorSink err);
  /* Lists the folders inside a folder, in sorted order. */
  int32_t (*folders)(void *self, FerryText folder, FerryNameSink names, FerryErrorSink err);
  /* Returns the length and the name of an open file. A `len` of `UINT64_MAX` means that the
   * length is unknown. A plugin that needs the length cannot read such a file. */
  int32_t (*info)(void *self, uint32_t file, uint64_t *len, FerryText *name, FerryErrorSink err);
  /* Fills the whole buffer with bytes of the file, starting at `offset`, or fails. */
  int32_t (*read_at)(void *self, uint32_t file, uint64_t offset, FerryBytesMut buffer,
      FerryErrorSink err);
  /* Fills the whole buffer with the bytes of all ranges, in order, or fails. Each range is
   * three numbers: file, offset and length. */
  int32_t (*read_ranges)(void *self, FerryNumbers ranges, FerryBytesMut buffer, FerryErrorSink err);
  /* Announces ranges that will be read soon. The ranges are encoded as in `read_ranges`. */
  int32_t (*advise)(void *self, FerryNumbers ranges, FerryErrorSink err);
};

/* Receives names or other strings. */
struct FerryNameSinkTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Adds a name. */
  int32_t (*name)(void *self, FerryText name, FerryErrorSink err);
};

/* Receives numbers. */
struct FerryNumberSinkTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Appends numbers, in order. */
  int32_t (*numbers)(void *self, FerryNumbers numbers, FerryErrorSink err);
};

/* Receives bytes, in order. */
struct FerryByteSinkTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Appends bytes. */
  int32_t (*write)(void *self, FerryBytes bytes, FerryErrorSink err);
};

/* Receives the losses of rows or of files that contain rows. */
struct FerryLossSinkTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Adds a loss. */
  int32_t (*loss)(void *self, const FerryLoss *loss, FerryErrorSink err);
};

/* Receives the description of a format. */
struct FerryDescriptionTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Sets the name and the capabilities. Call this function before all others. */
  int32_t (*identity)(void *self, const FerryIdentity *identity, FerryErrorSink err);
  /* Adds a file name suffix, including its dot. */
  int32_t (*suffix)(void *self, FerryText suffix, FerryErrorSink err);
  /* Adds a magic of the format. */
  int32_t (*magic)(void *self, const FerryMagic *magic, FerryErrorSink err);
  /* Adds a pattern for the names of files in a folder of this format. `*` matches any
   * characters. */
  int32_t (*member)(void *self, FerryText pattern, FerryErrorSink err);
  /* Adds an option of the reader or the writer. */
  int32_t (*option)(void *self, const FerryFormatOption *option, FerryErrorSink err);
  /* Adds an attribute of the format by its name. For example, `specification` refers to the
   * document that specifies the format. The host ignores unknown names. */
  int32_t (*attribute)(void *self, FerryText name, FerryText value, FerryErrorSink err);
};

/* Receives the content that a reader finds in the input. */
struct FerryCatalogSinkTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Adds a storage, which contains the bytes of tensors. */
  int32_t (*storage)(void *self, const FerryStorage *storage, uint32_t *id, FerryErrorSink err);
  /* Declares a dtype. Call this function before you add the first tensor of that dtype. */
  int32_t (*dtype)(void *self, const FerryDtype *dtype, uint32_t *id, FerryErrorSink err);
  /* Adds a tensor. */
  int32_t (*tensor)(void *self, const FerryTensor *tensor, uint32_t *id, FerryErrorSink err);
  /* Adds a node of a value. Add the node's children first. The value must not contain
   * tensors. */
  int32_t (*value)(void *self, const FerryNode *node, uint32_t *id, FerryErrorSink err);
  /* Adds a metadata entry: a key, and the number that `value` returned for its value. */
  int32_t (*metadata)(void *self, FerryText key, uint32_t value, FerryErrorSink err);
  /* Adds an attribute of a tensor: a key, and the number that `value` returned for its
   * value. */
  int32_t (*attribute)(void *self, uint32_t tensor, FerryText key, uint32_t value,
      FerryErrorSink err);
  /* Adds a node of the tree, after its children have been added. */
  int32_t (*node)(void *self, const FerryNode *node, uint32_t *id, FerryErrorSink err);
  /* Sets the root of the tree. */
  int32_t (*root)(void *self, uint32_t node, FerryErrorSink err);
  /* Reports content of the input that the catalog does not contain. */
  int32_t (*loss)(void *self, const FerryLoss *loss, FerryErrorSink err);
  /* Sets the original format of a converted input, if it differs from this reader's format. */
  int32_t (*origin)(void *self, FerryText format, FerryErrorSink err);
  /* Reports a function or class that the input asks its reader to call. ferry does not call
   * it. */
  int32_t (*global)(void *self, FerryText name, FerryErrorSink err);
  /* Adds a step in the syntax of `--step`. When the input is converted, the step is applied
   * before all other steps. */
  int32_t (*step)(void *self, FerryText step, FerryErrorSink err);
  /* Adds a file to the output folder, next to the tensors. */
  int32_t (*sidecar)(void *self, FerryText name, FerryBytes bytes, FerryErrorSink err);
};

/* Receives keys and their values. For each entry, add the nodes of the value, children before
 * their parents. Then add the key with the number of the last node. */
struct FerryValueSinkTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Adds a node of a value, after its children have been added. */
  int32_t (*value)(void *self, const FerryNode *node, uint32_t *id, FerryErrorSink err);
  /* Adds a key with the number that `value` returned for its value. */
  int32_t (*entry)(void *self, FerryText key, uint32_t value, FerryErrorSink err);
};

/* Receives one node. */
struct FerryNodeSinkTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Sets the node. */
  int32_t (*node)(void *self, const FerryNode *node, FerryErrorSink err);
};

/* The catalog of tensors that a writer writes. */
struct FerryCatalogViewTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Returns the numbers of tensors and storages, and the root of the tree. `root` is
   * `UINT32_MAX` if the catalog has no tree. */
  int32_t (*counts)(void *self, uint32_t *tensors, uint32_t *storages, uint32_t *root,
      FerryErrorSink err);
  /* Returns a tensor. `bytes` is its length in bytes. `tied_to` is the first tensor that
   * refers to the same bytes, or the tensor itself. */
  int32_t (*tensor)(void *self, uint32_t id, FerryText *name, uint32_t *dtype, FerryNumbers *shape,
      uint64_t *bytes, uint32_t *tied_to, FerryErrorSink err);
  /* Lists up to `most` blocks of a tensor, starting with block number `from`. The blocks are
   * encoded as in `FerryTensor`. Past the last block, the list is shorter or empty. */
  int32_t (*blocks)(void *self, uint32_t tensor, uint64_t from, uint64_t most,
      FerryNumberSink blocks, FerryErrorSink err);
  /* Returns the properties of a dtype that a tensor uses. */
  int32_t (*dtype)(void *self, uint32_t id, FerryNameSink name, uint32_t *block_elements,
      uint32_t *block_bytes, uint32_t *swap_unit, FerryErrorSink err);
  /* Returns the properties of a storage. */
  int32_t (*storage)(void *self, uint32_t id, uint64_t *len, uint32_t *byte_order,
      FerryErrorSink err);
  /* Lists the metadata, sorted by key. */
  int32_t (*metadata)(void *self, FerryValueSink entries, FerryErrorSink err);
  /* Lists the attributes of a tensor, sorted by key. */
  int32_t (*attributes)(void *self, uint32_t tensor, FerryValueSink entries, FerryErrorSink err);
  /* Returns a node of the tree. */
  int32_t (*node)(void *self, uint32_t id, FerryNodeSink node, FerryErrorSink err);
  /* Returns the name of the format from which the tensors were read. */
  int32_t (*origin)(void *self, FerryNameSink name, FerryErrorSink err);
  /* Fills the whole buffer with bytes of a tensor in row-major, little-endian form, starting
   * at `offset`. */
  int32_t (*read)(void *self, uint32_t tensor, uint64_t offset, FerryBytesMut buffer,
      FerryErrorSink err);
  /* Fills the buffer with all bytes of a region of a tensor. */
  int32_t (*read_region)(void *self, const FerryTensorRegion *region, FerryBytesMut buffer,
      FerryErrorSink err);
};

/* Receives the plan of a writer. */
struct FerryLayoutSinkTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Adds a file to the output. */
  int32_t (*file)(void *self, const FerryOutputFile *file, uint32_t *id, FerryErrorSink err);
  /* Appends literal bytes to a file, and returns their offset. */
  int32_t (*bytes)(void *self, uint32_t file, FerryBytes bytes, uint64_t *offset,
      FerryErrorSink err);
  /* Appends a tensor or part of a tensor, and returns its offset. */
  int32_t (*tensor)(void *self, const FerryTensorPart *part, uint64_t *offset, FerryErrorSink err);
  /* Appends a storage or part of a storage, and returns its offset. */
  int32_t (*storage)(void *self, const FerryStoragePart *part, uint64_t *offset,
      FerryErrorSink err);
  /* Appends bytes of another input, and returns their offset. */
  int32_t (*copy)(void *self, const FerrySourceCopy *copy, uint64_t *offset, FerryErrorSink err);
  /* Appends zeros, and returns their offset. */
  int32_t (*pad)(void *self, uint32_t file, uint64_t len, uint64_t *offset, FerryErrorSink err);
  /* Appends bytes that `encode` produces, and returns the id and offset of the segment. In
   * later offsets and in the ranges of digests, a segment of unknown length counts as one
   * byte. */
  int32_t (*encoded)(void *self, const FerryEncodedSegment *segment, uint32_t *id,
      uint64_t *offset, FerryErrorSink err);
  /* Appends bytes that `seal` supplies later. */
  int32_t (*deferred)(void *self, uint32_t file, uint64_t len, uint32_t *id, FerryErrorSink err);
  /* Requests a digest that `seal` can use. */
  int32_t (*digest)(void *self, const FerryDigestRequest *digest, uint32_t *id, FerryErrorSink err);
  /* Declares that the output stores `tensor` only as `of`, a tensor to which it is tied. */
  int32_t (*alias)(void *self, uint32_t tensor, uint32_t of, FerryErrorSink err);
  /* Omits a tensor from the output, for the reason `why`. */
  int32_t (*omit)(void *self, uint32_t tensor, FerryText why, FerryErrorSink err);
  /* Reports content that the output will not contain. */
  int32_t (*loss)(void *self, const FerryLoss *loss, FerryErrorSink err);
  /* Declares a tensor's name in the output, if that name differs from the name in the
   * catalog. */
  int32_t (*written_as)(void *self, uint32_t tensor, FerryText name, FerryErrorSink err);
  /* Declares that the writer's literal bytes contain a tensor. */
  int32_t (*held_in_bytes)(void *self, uint32_t tensor, FerryErrorSink err);
  /* Declares a pattern for the names of files from an earlier output, which this output
   * replaces. */
  int32_t (*supersedes)(void *self, FerryText pattern, uint32_t role, FerryErrorSink err);
};

/* The digests that a layout requested, and the final locations of its segments. */
struct FerryDigestsTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Returns a digest and its algorithm. */
  int32_t (*get)(void *self, uint32_t id, FerryByteSink value, uint32_t *algorithm,
      FerryErrorSink err);
  /* Returns the final location of an encoded segment, and the note that `encode` produced. */
  int32_t (*encoded)(void *self, uint32_t id, FerryByteSink note, uint64_t *offset, uint64_t *len,
      FerryErrorSink err);
  /* Returns the length of a file in bytes. */
  int32_t (*file_len)(void *self, uint32_t file, uint64_t *len, FerryErrorSink err);
};

/* Receives the bytes that depend on digests. */
struct FerrySealSinkTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Sets all bytes of a deferred segment. */
  int32_t (*deferred)(void *self, uint32_t id, FerryBytes bytes, FerryErrorSink err);
  /* Appends bytes to a file of kind 2, which is written after all other files. */
  int32_t (*late)(void *self, uint32_t file, FerryBytes bytes, FerryErrorSink err);
};

/* A format that a plugin implements. */
struct FerryFormatTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Describes the format. */
  int32_t (*describe)(void *self, FerryDescription description, FerryErrorSink err);
  /* Returns the likelihood, from 0 to 100, that the input has this format. Returns -1 to use
   * the declared magic, suffixes and members instead. */
  int32_t (*probe)(void *self, FerrySource source, FerryContext context, int64_t *score,
      FerryErrorSink err);
  /* Creates a reader of tensors with these options. The host has already checked the options
   * and filled in the defaults. */
  int32_t (*tensor_reader)(void *self, FerryPairs options, FerryTensorReader *reader,
      FerryErrorSink err);
  /* Creates a writer of tensors with these options. */
  int32_t (*tensor_writer)(void *self, FerryPairs options, FerryTensorWriter *writer,
      FerryErrorSink err);
  /* Creates a reader of rows with these options. */
  int32_t (*record_reader)(void *self, FerryPairs options, FerryRecordReader *reader,
      FerryErrorSink err);
  /* Creates a writer of rows with these options. */
  int32_t (*record_writer)(void *self, FerryPairs options, FerryRecordWriter *writer,
      FerryErrorSink err);
};

/* A reader of tensors, which describes the content of an input. */
struct FerryTensorReaderTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Fills the catalog, and returns the decoder for its encoded storages. */
  int32_t (*read)(void *self, FerrySource source, FerryCatalogSink catalog, FerryContext context,
      FerryTensorDecoder *decoder, FerryErrorSink err);
};

/* Decodes the encoded storages of an input. */
struct FerryTensorDecoderTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Writes all decoded bytes of a storage to `output`, in order. */
  int32_t (*decode)(void *self, FerrySource source, uint64_t handle, FerryByteSink output,
      FerryContext context, FerryErrorSink err);
};

/* A writer of tensors, which plans an output. */
struct FerryTensorWriterTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Plans the files of the output. `target_kind`: 0 a file, 1 a folder. */
  int32_t (*plan)(void *self, FerryCatalogView catalog, uint32_t target_kind,
      FerryText target_name, FerryLayoutSink layout, FerryContext context, FerryTensorPlan *plan,
      FerryErrorSink err);
  /* Lists the steps that make this catalog suitable for the output format, in the syntax of
   * `--step`. The host calls this function before `plan`. */
  int32_t (*steps)(void *self, FerryCatalogView catalog, FerryNameSink steps, FerryContext context,
      FerryErrorSink err);
};

/* The plan of a tensor output. */
struct FerryTensorPlanTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Writes the bytes of a streamed file to `output`, in order. */
  int32_t (*stream)(void *self, uint32_t file, FerryCatalogView catalog, FerryByteSink output,
      FerryContext context, FerryErrorSink err);
  /* Writes the bytes of an encoded segment to `output`, in order. The host encodes many
   * segments concurrently. The host keeps `note` for `seal`. */
  int32_t (*encode)(void *self, uint32_t id, FerryCatalogView catalog, FerryByteSink output,
      FerryByteSink note, FerryContext context, FerryErrorSink err);
  /* Supplies the deferred bytes, and the files that are written after all others. */
  int32_t (*seal)(void *self, FerryDigests digests, FerrySealSink output, FerryContext context,
      FerryErrorSink err);
};

/* A reader of rows, which opens inputs. */
struct FerryRecordReaderTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Opens an input. The record set takes ownership of the source. */
  int32_t (*open)(void *self, FerrySource source, FerryLossSink losses, FerryContext context,
      FerryRecordSet *set, FerryErrorSink err);
  /* Writes an index of the input, and returns the numbers of records and bytes that the
   * index covers. */
  int32_t (*index)(void *self, FerrySource source, FerryByteSink output, FerryContext context,
      uint64_t *records, uint64_t *bytes, FerryErrorSink err);
};

/* Receives splits, in order. */
struct FerrySplitSinkTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Adds the next split. */
  int32_t (*split)(void *self, const FerrySplit *split, FerryErrorSink err);
};

/* Receives the records that the reader skipped. */
struct FerrySkippedSinkTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Adds a skipped record. */
  int32_t (*skipped)(void *self, const FerrySkipped *skipped, FerryErrorSink err);
};

/* Comparisons that must all be true for the host to keep a row. A plugin may omit rows for
 * which a comparison is false. The host checks all rows again. */
struct FerryPredicateTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Returns the number of comparisons. */
  int32_t (*count)(void *self, uint32_t *count, FerryErrorSink err);
  /* Returns the path, the comparator and the values of a comparison. The path is encoded as
   * in `FerryScan`. `comparator`: 0 equal, 1 unequal, 2 less, 3 less or equal, 4 greater, 5
   * greater or equal, 6 missing, 7 not missing, 8 equal to one of the values. A plugin
   * ignores a comparison if it does not know the comparator or the values. */
  int32_t (*comparison)(void *self, uint32_t index, FerryNodeSink values, FerryIds *column,
      uint32_t *comparator, FerryErrorSink err);
};

/* An open row input. */
struct FerryRecordSetTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Returns the schema of the columns. */
  int32_t (*schema)(void *self, struct ArrowSchema *schema, FerryErrorSink err);
  /* Lists the splits, in order. */
  int32_t (*splits)(void *self, FerrySplitSink splits, FerryErrorSink err);
  /* Returns a stream of rows and a ticket for the stream. If the stream reports an error,
   * `fault` returns the full error for the ticket. */
  int32_t (*scan)(void *self, const FerryScan *scan, FerryPredicate predicate,
      struct ArrowArrayStream *stream, uint64_t *ticket, FerryErrorSink err);
  /* Fails with the error of the stream to which this ticket belongs. The error is returned
   * only once. */
  int32_t (*fault)(void *self, uint64_t ticket, FerryErrorSink err);
  /* Writes up to `most` records of a split as JSON lines. Sets `written` to `UINT64_MAX` if
   * the format does not define its own JSON form. */
  int32_t (*json)(void *self, uint32_t split, uint64_t most, FerryByteSink output,
      uint64_t *written, FerryErrorSink err);
  /* Lists the records that the reader skipped. */
  int32_t (*skipped)(void *self, FerrySkippedSink skipped, FerryErrorSink err);
  /* Reports content of the input that the columns do not contain. */
  int32_t (*losses)(void *self, FerryLossSink losses, FerryErrorSink err);
};

/* A writer of rows, which plans outputs. */
struct FerryRecordWriterTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Plans the files of the output. */
  int32_t (*plan)(void *self, struct ArrowSchema *schema, const FerryRecordOutput *output,
      FerryLossSink losses, FerryContext context, FerryRecordPlan *plan, FerryErrorSink err);
};

/* The encoded pieces of an output file, in order. */
struct FerryPiecesTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Returns the number of pieces. */
  int32_t (*count)(void *self, uint64_t *count, FerryErrorSink err);
  /* Returns the location of a piece, its number of rows, and the note that `encode`
   * produced. */
  int32_t (*piece)(void *self, uint64_t index, uint64_t *offset, uint64_t *len, uint64_t *rows,
      FerryBytes *note, FerryErrorSink err);
};

/* The finished files of a row output, in order. */
struct FerryWrittenFilesTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Returns the number of files. */
  int32_t (*count)(void *self, uint64_t *count, FerryErrorSink err);
  /* Returns the name of a file, its length in bytes, and its number of pieces. */
  int32_t (*file)(void *self, uint64_t index, FerryText *name, uint64_t *bytes, uint64_t *pieces,
      FerryErrorSink err);
  /* Returns a piece of a file. The results are the same as in `FerryPieces`. */
  int32_t (*piece)(void *self, uint64_t file, uint64_t index, uint64_t *offset, uint64_t *len,
      uint64_t *rows, FerryBytes *note, FerryErrorSink err);
};

/* The plan of a row output. */
struct FerryRecordPlanTable {
  size_t size;
  FERRY_COMMON_SLOTS
  /* Lists the names of the files. The list is empty if the plan starts new files as needed. */
  int32_t (*files)(void *self, FerryNameSink names, FerryErrorSink err);
  /* Returns the condition for starting the next file. `kind`: 0 the plan never starts a new
   * file, 1 after `size` rows, 2 before a piece that would make the file longer than `size`
   * bytes. */
  int32_t (*roll)(void *self, uint32_t *kind, uint64_t *size, FerryErrorSink err);
  /* Returns the name of a file if the plan starts new files as needed. The host calls this
   * function when the number of files is known. */
  int32_t (*name)(void *self, uint32_t file, uint32_t count, FerryNameSink name,
      FerryErrorSink err);
  /* Lists patterns for the names of files from an earlier output, which this output
   * replaces. */
  int32_t (*supersedes)(void *self, FerryNameSink patterns, FerryErrorSink err);
  /* Returns the number of rows and bytes that are encoded together. */
  int32_t (*group)(void *self, uint64_t *rows, uint64_t *bytes, FerryErrorSink err);
  /* Writes the beginning of a file. */
  int32_t (*begin)(void *self, uint32_t file, FerryByteSink output, FerryErrorSink err);
  /* Encodes rows as a piece. The host encodes many pieces concurrently, before it assigns
   * them to files. The host keeps `note` for `finish`. */
  int32_t (*encode)(void *self, struct ArrowArrayStream *batches, FerryByteSink output,
      FerryLossSink losses, FerryByteSink note, FerryErrorSink err);
  /* Writes the end of a file. */
  int32_t (*finish)(void *self, uint32_t file, FerryPieces pieces, FerryByteSink output,
      FerryErrorSink err);
  /* Lists the names of the files that describe all other files. */
  int32_t (*sealed)(void *self, FerryNameSink names, FerryErrorSink err);
  /* Writes all bytes of one of the `sealed` files. The host calls this function after all
   * other files are finished. */
  int32_t (*seal)(void *self, uint32_t sealed, FerryWrittenFiles files, FerryByteSink output,
      FerryErrorSink err);
  /* Lists notes for the user. */
  int32_t (*notes)(void *self, FerryNameSink notes, FerryErrorSink err);
};

/* The data that a library exports as FERRY_PLUGIN. Texts are UTF-8, truncated if they are too long, and padded
 * with zeros. */
typedef struct {
  uint8_t magic[16];
  uint32_t size;
  uint32_t major;
  uint32_t minor_built;  /* the revision of this header */
  uint32_t minor_needed; /* the minimum revision that the host must have */
  uint32_t flags;        /* 0 for libraries in C */
  uint8_t name[64];
  uint8_t version[32];
  uint8_t sdk[32];
  int32_t (*init)(FerryHost host, FerryRegistrar registrar, FerryErrorSink err);
} FerryManifest;

#define FERRY_MAGIC {'f', 'e', 'r', 'r', 'y', ' ', 'p', 'l', 'u', 'g', 'i', 'n', 0, 0, 0, 2}
#define FERRY_MAJOR 1
#define FERRY_MINOR 0

/* Returns whether an object offers the function in a slot. */
#define FERRY_HAS(object, slot) \
  ((object).table->size >= (size_t)((const char *)(&(object).table->slot + 1) - (const char *)(object).table) && \
   (object).table->slot)

#ifdef __cplusplus
}
#endif
#endif
