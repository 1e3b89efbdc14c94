//! What crosses, declared once: each kind of object with its functions, each request with its facts.
//!
//! The SDK's traits of the same names say what a call means; here stands how its facts are numbered. What the golden
//! libraries of revision 1.0 were built with stays as it is, for good; additions follow after `then`, at the end, each fact of
//! a request at a multiple of eight bytes.
#![allow(clippy::len_without_is_empty, reason = "accessors of `len`, which the derive of the twin makes")]

use crate::arrow::{ArrowArrayStream, ArrowSchema, Moved};
use crate::crossing::{Answer, Answers, Argument};
use crate::data::{Bytes, BytesMut, Flag, Ids, Numbers, Pairs, Text, Words};
use crate::error_sink::{ErrorSink, call, guard};
use crate::facts::{Described, ObjectFacts, SlotFacts};
use crate::failure::{Failure, Sender};
use crate::grows::{Grows, adopt_as};
use crate::object::{Borrowed, Given, Handle, Lend, ObjectOf, Shared, Table};
use crate::table::{no_extension, object, request};
use abi_stable::StableAbi;
use std::ffi::c_void;

object! {
    /// The program, as a library's `init` sees it.
    shared Host: HostTable, HostTableRef, HostCalls, Host {
        /// The revision of the boundary that it has.
        revision() -> (major: u32, minor: u32);
        /// A line for the user, as of `Context.log`.
        log(level: u32, message: Text);
    }
}

object! {
    /// An object of a kind that a text beside it names: what every table begins with.
    shared Object: ObjectTable, ObjectTableRef, ObjectCalls, Plugin {}
}

object! {
    /// Takes what a library offers.
    sink Registrar: RegistrarTable, RegistrarTableRef, RegistrarCalls, Host {
        /// An object of a kind: `format`. One that the host does not know is unsupported, which a library that can do
        /// without may pass over.
        add(kind: Text, object: Given<Object>);
    }
}

object! {
    /// What a plugin may know of the run.
    shared Context: ContextTable, ContextTableRef, ContextCalls, Host {
        /// A limit by its name, as `header_bytes` or `memory_bytes`; all bits are set where the host knows no such limit,
        /// and the plugin's own default stands.
        limit(name: Text) -> (value: u64);
        /// Whether the user ended the run.
        cancelled() -> (cancelled: Flag);
        /// A line for the user. `level`: 0 error, 1 warning, 2 note, 3 detail, which is not shown; another one is taken
        /// for a note.
        log(level: u32, message: Text);
        /// How many bytes of the input a long call has gone through, of how many.
        progress(done: u64, total: u64);
        /// What the result is for: the bits of the SDK's `Purpose`. Bits that are not known say nothing.
        purpose() -> (purpose: u32);
        /// How many threads a call may use.
        threads() -> (threads: u32);
        /// The input that an option of kind 5 names.
        open(path: Text) -> (source: Given<Source>);
        /// A fact by its name; all bits are set where the host does not know it. `output_is_new`: 1 where nothing
        /// of the output is there yet. `input_is_folder`: 1 where `input_folder` gives one.
        attribute(name: Text) -> (value: u64);
    } then {
        /// The folder of the model that an output is planned of; the attribute `input_is_folder` says whether it is one.
        /// What is opened in it counts as held by the output.
        input_folder() -> (source: Given<Source>);
    }
}

object! {
    /// The input's files. It may be kept where it is given.
    shared Source: SourceTable, SourceTableRef, SourceCalls, Host {
        /// What the user named. `kind`: 0 a file, 1 a folder, 2 a prefix.
        entry() -> (kind: u32, name: Text);
        /// Opens a file by its name in the folder.
        open(name: Text) -> (file: u32);
        /// Whether there is such a file.
        exists(name: Text) -> (exists: Flag);
        /// The names that begin so, in order, without folders.
        list(prefix: Text, names: NameSink);
        /// The folders in a folder, in order.
        folders(folder: Text, names: NameSink);
        /// The length and the name of an open file. All bits of `len` are set where the length is not known: a plugin that
        /// needs it cannot read such a file.
        info(file: u32) -> (len: u64, name: Text);
        /// Fills the buffer from an offset on, or fails.
        read_at(file: u32, offset: u64, buffer: BytesMut);
        /// Fills the buffer with ranges one after the other, or fails; for each its file, its offset and its length.
        read_ranges(ranges: Numbers, buffer: BytesMut);
        /// Ranges that will be read soon, as of `read_ranges`.
        advise(ranges: Numbers);
    }
}

object! {
    /// Takes names, or other texts.
    sink NameSink: NameSinkTable, NameSinkTableRef, NameSinkCalls, Host {
        /// One.
        name(name: Text);
    }
}

object! {
    /// Takes numbers.
    sink NumberSink: NumberSinkTable, NumberSinkTableRef, NumberSinkCalls, Host {
        /// Some of them, in order.
        numbers(numbers: Numbers);
    }
}

object! {
    /// Takes bytes in order.
    sink ByteSink: ByteSinkTable, ByteSinkTableRef, ByteSinkCalls, Host {
        /// The next ones.
        write(bytes: Bytes);
    }
}

request! {
    /// What the other side does not hold.
    LossAt: Loss, LossRef, LossFacts {
        /// The word of the SDK's `LossKind`.
        kind: Text,
        /// 0 lost, 1 changed, 2 a note; a number that is not known is the first.
        severity: u32,
        /// Whether it follows from what the user asked for.
        asked: Flag,
        /// A tensor's name, a path in the tree, a file.
        what: Text,
        /// Why it was not carried.
        why: Text,
    }
}

object! {
    /// Takes what rows or their files cannot say.
    sink LossSink: LossSinkTable, LossSinkTableRef, LossSinkCalls, Host {
        /// One of them.
        loss(loss: LossAt);
    }
}

request! {
    /// An option of a format.
    OptionAt: FormatOption, FormatOptionRef, OptionFacts {
        /// 0 of the reader, 1 of the writer.
        side: u32,
        /// Its key.
        key: Text,
        /// 0 text, 1 bool, 2 integer, 3 size, 4 one of `choices`, 5 a source, 6 texts, one for each time that it is
        /// given, each with its own pair; a host treats another as text.
        kind: u32,
        /// What it may be.
        choices: Words,
        /// What it is where nothing is said; none or one.
        defaults: Words,
        /// What a user reads about it.
        help: Text,
    }
}

request! {
    /// What a format is called and can do.
    IdentityAt: Identity, IdentityRef, IdentityFacts {
        /// The id for `--from` and `--to`: lowercase, digits, dashes.
        id: Text,
        /// What a person calls it.
        title: Text,
        /// The bits of the SDK's `Capabilities`.
        capabilities: u64,
        /// Raised whenever the same input and options would give other bytes.
        output_revision: u32,
    }
}

request! {
    /// Bytes that each file of a format has.
    MagicAt: Magic, MagicRef, MagicFacts {
        /// Where: from the file's start, or how far before its end.
        offset: u64,
        /// What stands there.
        bytes: Bytes,
        /// Which bits of each byte count, as many bytes; none where all do.
        mask: Bytes,
        /// Whether `offset` is counted from the file's end.
        from_end: Flag,
    }
}

object! {
    /// Takes a format's description.
    sink Description: DescriptionTable, DescriptionTableRef, DescriptionCalls, Host {
        /// First: what it is called and can do.
        identity(identity: IdentityAt);
        /// A file name ending, with its dot.
        suffix(suffix: Text);
        /// Bytes at an offset.
        magic(magic: MagicAt);
        /// A file name that a folder of this format has; `*` stands for any run of characters.
        member(pattern: Text);
        /// An option of its reader or its writer.
        option(option: OptionAt);
        /// A fact about the format by its name: `specification`, where the format is written down. Names that the host
        /// does not know are passed over.
        attribute(name: Text, value: Text);
    }
}

request! {
    /// Bytes of tensors, where they lie.
    StorageAt: Storage, StorageRef, StorageFacts {
        /// 0 in a file, 1 encoded, 2 inline, 3 joined of ranges of storages that were given before.
        kind: u32,
        /// 0 little, 1 big.
        byte_order: u32,
        /// Kind 0: the file.
        file: u32,
        /// Kind 0: where in the file.
        offset: u64,
        /// Bytes, as tensors see them.
        len: u64,
        /// Kind 1: what the decoder is asked with.
        handle: u64,
        /// Kind 2: the bytes.
        bytes: Bytes,
        /// Kind 3: for each range its storage, where it begins there, and its length. None is itself joined, and
        /// all are of this byte order.
        ranges: Numbers,
        /// The number of the SDK's `DigestAlgorithm`; 0 where no digest is known.
        digest_algorithm: u32,
        /// The digest that the file itself has of these bytes.
        digest: Bytes,
    }
}

request! {
    /// How elements of a dtype lie in memory.
    DtypeAt: Dtype, DtypeRef, DtypeFacts {
        /// Its name.
        name: Text,
        /// How many elements share a block.
        block_elements: u32,
        /// Bytes of a block; 0 where the values decide.
        block_bytes: u32,
        /// How many bytes are reversed together where byte orders differ.
        swap_unit: u32,
    }
}

request! {
    /// A tensor that a reader found.
    TensorAt: Tensor, TensorRef, TensorFacts {
        /// Its name.
        name: Text,
        /// What `dtype` gave.
        dtype: u32,
        /// Its shape.
        shape: Numbers,
        /// 0 it lies in one storage, row by row; 1 it lies in blocks; 2 it lies in tiles of one shape.
        kind: u32,
        /// Kind 0: the storage. Kind 2 without `tiles`: that of the first tile.
        storage: u32,
        /// Kind 0: where in the storage, in bytes.
        offset: u64,
        /// Kind 1: for each block its storage, its offset, its origin and shape (rank numbers each), and its strides
        /// (rank numbers, two's complement).
        blocks: Numbers,
        /// Kind 2: the shape of a tile.
        tile: Numbers,
        /// Kind 2: the order of the elements in a tile: 0 row-major, 1 column-major.
        order: u32,
        /// Kind 2: how tiles are stored that reach past the tensor's end: 0 what is inside alone, 1 whole tiles.
        edges: u32,
        /// Kind 2: the storage of each tile, in row-major order of the tiles; `UINT32_MAX` for one that is absent.
        tiles: Ids,
        /// Kind 2 without `tiles`: how many tiles there are, in storages of consecutive ids.
        tile_count: u32,
        /// Kind 2: the storage of one element, which absent tiles repeat; `UINT32_MAX`: none.
        fill: u32,
    }
}

request! {
    /// A node of the tree of what is no tensor.
    NodeAt: Node, NodeRef, NodeFacts {
        /// The number of the SDK's `NodeKind`.
        kind: u32,
        /// The class of an object.
        class_name: Text,
        /// Its own bytes.
        bytes: Bytes,
        /// Its children.
        children: Ids,
    }
}

object! {
    /// Takes what a reader finds.
    sink CatalogSink: CatalogSinkTable, CatalogSinkTableRef, CatalogSinkCalls, Host {
        /// Bytes of tensors.
        storage(storage: StorageAt) -> (id: u32);
        /// A dtype, before the first tensor that has it.
        dtype(dtype: DtypeAt) -> (id: u32);
        /// A tensor.
        tensor(tensor: TensorAt) -> (id: u32);
        /// A node of a value, after its children, which are nodes of values too; none is a tensor.
        value(node: NodeAt) -> (id: u32);
        /// An entry of the metadata: a key with what `value` gave.
        metadata(key: Text, value: u32);
        /// An attribute of a tensor: a key with what `value` gave.
        attribute(tensor: u32, key: Text, value: u32);
        /// A node, after its children.
        node(node: NodeAt) -> (id: u32);
        /// The node that all others hang on.
        root(node: u32);
        /// What the catalog does not hold of the input.
        loss(loss: LossAt);
        /// The format that the input was written in, where that is not the reader's own.
        origin(format: Text);
        /// A name that the input wants to have called, and was not.
        global(name: Text);
    } then {
        /// A step, as users write it, that the catalog goes through where it is converted, before all others.
        step(step: Text);
        /// A file that goes into the folder that the tensors are written to.
        sidecar(name: Text, bytes: Bytes);
    }
}

object! {
    /// Takes keys with their values: for each the nodes, children before their parents, then the key with the number
    /// of the last one.
    sink ValueSink: ValueSinkTable, ValueSinkTableRef, ValueSinkCalls, Host {
        /// A node of a value.
        value(node: NodeAt) -> (id: u32);
        /// A key with what `value` gave.
        entry(key: Text, value: u32);
    }
}

object! {
    /// Takes a node.
    sink NodeSink: NodeSinkTable, NodeSinkTableRef, NodeSinkCalls, Host {
        /// It.
        node(node: NodeAt);
    }
}

request! {
    /// A region of a tensor, and how its elements are wanted.
    RegionAt: TensorRegion, TensorRegionRef, RegionFacts {
        /// The tensor.
        tensor: u32,
        /// Whether a region of it is meant, and not all.
        is_region: Flag,
        /// The region's origin, then its shape.
        region: Numbers,
        /// 0 C, 1 Fortran.
        order: u32,
        /// 0 little, 1 big.
        byte_order: u32,
    }
}

object! {
    /// The catalog that a writer lays out.
    shared CatalogView: CatalogViewTable, CatalogViewTableRef, CatalogViewCalls, Host {
        /// How many tensors and storages there are, and the root; all bits of `root` are set where there is none.
        counts() -> (tensors: u32, storages: u32, root: u32);
        /// A tensor: its bytes, and the first tensor that it is tied to or itself.
        tensor(id: u32) -> (name: Text, dtype: u32, shape: Numbers, bytes: u64, tied_to: u32);
        /// The blocks of a tensor from number `from` on, at most so many, as in `FerryTensor`; fewer, or none, at the
        /// end of them.
        blocks(tensor: u32, from: u64, most: u64, blocks: NumberSink);
        /// A dtype that a tensor has.
        dtype(id: u32, name: NameSink) -> (block_elements: u32, block_bytes: u32, swap_unit: u32);
        /// A storage.
        storage(id: u32) -> (len: u64, byte_order: u32);
        /// All metadata, in order of the keys.
        metadata(entries: ValueSink);
        /// The attributes of a tensor, in order of the keys.
        attributes(tensor: u32, entries: ValueSink);
        /// A node.
        node(id: u32, node: NodeSink);
        /// The format that the input was written in.
        origin(name: NameSink);
        /// Fills the buffer with a tensor's logical bytes (row-major, little-endian) from an offset on.
        read(tensor: u32, offset: u64, buffer: BytesMut);
        /// Fills the buffer with all bytes of a region.
        read_region(region: RegionAt, buffer: BytesMut);
    }
}

request! {
    /// A file of the output.
    FileAt: OutputFile, OutputFileRef, FileFacts {
        /// Its name in the output's folder.
        path: Text,
        /// 0 data, 1 index.
        role: u32,
        /// 0 laid out, 1 streamed by the plan, 2 given when all others are there.
        kind: u32,
        /// Kind 1: the tensors that it holds.
        tensors: Ids,
    }
}

request! {
    /// Bytes of a tensor in a file.
    PartAt: TensorPart, TensorPartRef, PartFacts {
        /// The file.
        file: u32,
        /// The tensor.
        tensor: u32,
        /// Whether a region of it is meant, and not all.
        is_region: Flag,
        /// The region's origin, then its shape.
        region: Numbers,
        /// 0 C, 1 Fortran.
        order: u32,
        /// 0 little, 1 big.
        byte_order: u32,
    }
}

request! {
    /// Bytes of a storage in a file, as they lie.
    StoragePartAt: StoragePart, StoragePartRef, StoragePartFacts {
        /// The file.
        file: u32,
        /// The storage.
        storage: u32,
        /// Where in the storage.
        offset: u64,
        /// How many.
        len: u64,
        /// How many are reversed together if they are big-endian.
        swap_unit: u32,
    }
}

request! {
    /// Bytes of a file of another input, which an option of kind 5 names.
    CopyAt: SourceCopy, SourceCopyRef, CopyFacts {
        /// The file of the output.
        file: u32,
        /// What `Context.open` was asked for.
        source: Text,
        /// The file's name there.
        name: Text,
        /// Where in that file.
        offset: u64,
        /// How many.
        len: u64,
    }
}

request! {
    /// Bytes of a file that the plan encodes.
    EncodedAt: EncodedSegment, EncodedSegmentRef, EncodedFacts {
        /// The file.
        file: u32,
        /// How many bytes it will have; all bits are set where that is known afterwards.
        len: u64,
        /// The tensors that it holds.
        tensors: Ids,
        /// Whether it holds a region of the one tensor, and not all.
        is_region: Flag,
        /// The region's origin, then its shape.
        region: Numbers,
    }
}

request! {
    /// A digest of a file's bytes.
    DigestAt: DigestRequest, DigestRequestRef, DigestFacts {
        /// The file.
        file: u32,
        /// The first byte.
        start: u64,
        /// The byte after the last.
        end: u64,
        /// The number of the SDK's `DigestAlgorithm`.
        algorithm: u32,
    }
}

object! {
    /// Takes what a writer plans.
    sink LayoutSink: LayoutSinkTable, LayoutSinkTableRef, LayoutSinkCalls, Host {
        /// A file.
        file(file: FileAt) -> (id: u32);
        /// Bytes; gives where they lie.
        bytes(file: u32, bytes: Bytes) -> (offset: u64);
        /// A tensor or a part of it.
        tensor(part: PartAt) -> (offset: u64);
        /// A storage or a part of it.
        storage(part: StoragePartAt) -> (offset: u64);
        /// Bytes of another input.
        copy(copy: CopyAt) -> (offset: u64);
        /// Zeros.
        pad(file: u32, len: u64) -> (offset: u64);
        /// Bytes that `encode` gives. One of a length that is not known counts as one byte in the offsets of what
        /// follows it and in the ranges of digests.
        encoded(segment: EncodedAt) -> (id: u32, offset: u64);
        /// Bytes that `seal` gives.
        deferred(file: u32, len: u64) -> (id: u32);
        /// A digest that `seal` needs.
        digest(digest: DigestAt) -> (id: u32);
        /// A tensor that the output holds as another one.
        alias(tensor: u32, of: u32);
        /// A tensor that the output does not hold.
        omit(tensor: u32, why: Text);
        /// What the output does not hold.
        loss(loss: LossAt);
        /// The name that a tensor has in the output, where it is another one.
        written_as(tensor: u32, name: Text);
        /// A tensor that stands in the writer's own bytes.
        held_in_bytes(tensor: u32);
        /// Files of an earlier output that this one replaces.
        supersedes(pattern: Text, role: u32);
    }
}

object! {
    /// The digests that a layout asked for.
    sink Digests: DigestsTable, DigestsTableRef, DigestsCalls, Host {
        /// One of them.
        get(id: u32, value: ByteSink) -> (algorithm: u32);
        /// Where an encoded segment came to lie, and what `encode` said of it.
        encoded(id: u32, note: ByteSink) -> (offset: u64, len: u64);
        /// The length of a file.
        file_len(file: u32) -> (len: u64);
    }
}

object! {
    /// Takes what needed digests.
    sink SealSink: SealSinkTable, SealSinkTableRef, SealSinkCalls, Host {
        /// All bytes of a deferred segment.
        deferred(id: u32, bytes: Bytes);
        /// Appends to a late file.
        late(file: u32, bytes: Bytes);
    }
}

object! {
    /// A format.
    shared Format: FormatTable, FormatTableRef, FormatCalls, Plugin {
        /// What it is.
        describe(description: Description);
        /// How sure it is of this input, from 0 to 100; -1 where the declared magic, suffixes and members decide.
        probe(source: Source, context: Context) -> (score: i64);
        /// A reader with these options, which were checked, and defaults filled in.
        tensor_reader(options: Pairs) -> (reader: Given<TensorReader>);
        /// A writer.
        tensor_writer(options: Pairs) -> (writer: Given<TensorWriter>);
        /// A reader of rows.
        record_reader(options: Pairs) -> (reader: Given<RecordReader>);
        /// A writer of rows.
        record_writer(options: Pairs) -> (writer: Given<RecordWriter>);
    }
}

object! {
    /// Describes what an input holds.
    shared TensorReader: TensorReaderTable, TensorReaderTableRef, TensorReaderCalls, Plugin {
        /// Fills the catalog, and gives what decodes its encoded storages.
        read(source: Source, catalog: CatalogSink, context: Context) -> (decoder: Given<TensorDecoder>);
    }
}

object! {
    /// Decodes the encoded storages of an input that was read.
    shared TensorDecoder: TensorDecoderTable, TensorDecoderTableRef, TensorDecoderCalls, Plugin {
        /// Pushes all bytes of a storage, in order.
        decode(source: Source, handle: u64, output: ByteSink, context: Context);
    }
}

object! {
    /// Describes an output.
    shared TensorWriter: TensorWriterTable, TensorWriterTableRef, TensorWriterCalls, Plugin {
        /// Plans the files. `target_kind`: 0 a file, 1 a folder.
        plan(catalog: CatalogView, target_kind: u32, target_name: Text, layout: LayoutSink, context: Context)
            -> (plan: Given<TensorPlan>);
    } then {
        /// Before `plan`: the steps that make of this catalog one that the output can have, as users write them.
        steps(catalog: CatalogView, steps: NameSink, context: Context);
    }
}

object! {
    /// A plan of tensors in hand.
    shared TensorPlan: TensorPlanTable, TensorPlanTableRef, TensorPlanCalls, Plugin {
        /// Pushes a streamed file's bytes, in order.
        stream(file: u32, catalog: CatalogView, output: ByteSink, context: Context);
        /// Pushes an encoded segment's bytes, in order; many at once. `note` is for `seal`.
        encode(id: u32, catalog: CatalogView, output: ByteSink, note: ByteSink, context: Context);
        /// Gives the deferred bytes and the late files.
        seal(digests: Digests, output: SealSink, context: Context);
    }
}

object! {
    /// Opens inputs of rows.
    shared RecordReader: RecordReaderTable, RecordReaderTableRef, RecordReaderCalls, Plugin {
        /// Opens an input, which the set keeps.
        open(source: Given<Source>, losses: LossSink, context: Context) -> (set: Given<RecordSet>);
        /// Writes an index; gives the records and the bytes that it saw.
        index(source: Source, output: ByteSink, context: Context) -> (records: u64, bytes: u64);
    }
}

request! {
    /// A part of the input that is read on its own.
    SplitAt: Split, SplitRef, SplitFacts {
        /// Its file.
        file: Text,
        /// Where it begins.
        offset: u64,
        /// Its bytes.
        bytes: u64,
        /// Its records; all bits are set where that is not known.
        records: u64,
    }
}

object! {
    /// Takes splits.
    sink SplitSink: SplitSinkTable, SplitSinkTableRef, SplitSinkCalls, Host {
        /// One, in order.
        split(split: SplitAt);
    }
}

request! {
    /// A record that was passed over.
    SkippedAt: Skipped, SkippedRef, SkippedFacts {
        /// Its file.
        file: Text,
        /// Its number; all bits are set where that is not known.
        record: u64,
        /// Where it begins.
        offset: u64,
        /// Why.
        why: Text,
    }
}

object! {
    /// Takes records that were passed over.
    sink SkippedSink: SkippedSinkTable, SkippedSinkTableRef, SkippedSinkCalls, Host {
        /// One.
        skipped(skipped: SkippedAt);
    }
}

request! {
    /// Which rows are wanted, and how.
    ScanAt: Scan, ScanRef, ScanFacts {
        /// The split.
        split: u32,
        /// Whether `columns` says which, and not all are wanted.
        is_projected: Flag,
        /// The fields, in ascending order: for each the length of its path, and the path: the place of a column, then
        /// places within structs.
        columns: Ids,
        /// The first row of the split that is wanted, before any comparison.
        first_row: u64,
        /// At most so many rows from there on; all bits are set where all are wanted.
        limit: u64,
        /// At most so many rows a batch.
        rows: u64,
        /// About so many bytes a batch.
        bytes: u64,
    }
}

object! {
    /// Comparisons that are all true of every row that the host goes on with. A plugin may leave out rows for which
    /// one is not; the host looks again.
    shared Predicate: PredicateTable, PredicateTableRef, PredicateCalls, Host {
        /// How many there are.
        count() -> (count: u32);
        /// A comparison: a path as in `FerryScan`, what it is compared with, and how: 0 equal, 1 unequal, 2 less, 3 less or
        /// equal, 4 greater, 5 greater or equal, 6 missing, 7 not missing, 8 equal to one of the values. A plugin ignores
        /// a comparison whose number or values it does not know.
        comparison(index: u32, values: NodeSink) -> (column: Ids, comparator: u32);
    }
}

object! {
    /// An opened input of rows.
    shared RecordSet: RecordSetTable, RecordSetTableRef, RecordSetCalls, Plugin {
        /// Its columns.
        schema() -> (schema: ArrowSchema);
        /// Its splits, in order.
        splits(splits: SplitSink);
        /// A stream of rows. When it reports an error, `fault` gives what is behind its ticket.
        scan(scan: ScanAt, predicate: Predicate) -> (stream: ArrowArrayStream, ticket: u64);
        /// Fails with the error of the stream of this ticket, once.
        fault(ticket: u64);
        /// Writes a split's records as JSON lines, at most so many; all bits of `written` are set where the format has
        /// no mapping of its own.
        json(split: u32, most: u64, output: ByteSink) -> (written: u64);
        /// The records that were passed over.
        skipped(skipped: SkippedSink);
        /// What the columns do not hold of the input.
        losses(losses: LossSink);
    }
}

request! {
    /// What an output of rows is to be.
    OutputAt: RecordOutput, RecordOutputRef, OutputFacts {
        /// How many rows there will be; all bits are set where that is not known.
        rows: u64,
        /// 0 a file, 1 a folder.
        target_kind: u32,
        /// The file's name.
        target_name: Text,
    }
}

object! {
    /// Plans outputs of rows.
    shared RecordWriter: RecordWriterTable, RecordWriterTableRef, RecordWriterCalls, Plugin {
        /// Plans the files.
        plan(schema: Moved<ArrowSchema>, output: OutputAt, losses: LossSink, context: Context)
            -> (plan: Given<RecordPlan>);
    }
}

object! {
    /// The encoded pieces of a file, in order.
    shared Pieces: PiecesTable, PiecesTableRef, PiecesCalls, Host {
        /// How many there are.
        count() -> (count: u64);
        /// A piece: where it lies, and what `encode` said of it.
        piece(index: u64) -> (offset: u64, len: u64, rows: u64, note: Bytes);
    }
}

object! {
    /// The files of an output of rows that are finished, in order.
    shared WrittenFiles: WrittenFilesTable, WrittenFilesTableRef, WrittenFilesCalls, Host {
        /// How many there are.
        count() -> (count: u64);
        /// A file: its name, its bytes, and how many pieces it has.
        file(index: u64) -> (name: Text, bytes: u64, pieces: u64);
        /// A piece of a file, as in `FerryPieces`.
        piece(file: u64, index: u64) -> (offset: u64, len: u64, rows: u64, note: Bytes);
    }
}

object! {
    /// A plan of rows in hand.
    shared RecordPlan: RecordPlanTable, RecordPlanTableRef, RecordPlanCalls, Plugin {
        /// The names of its files; none for a plan that rolls.
        files(names: NameSink);
        /// When a file is full and the next one begins. `kind`: 0 the plan does not roll, 1 at so many rows, 2 before a piece
        /// with which it would have more than so many bytes.
        roll() -> (kind: u32, size: u64);
        /// The name of a file of a plan that rolls, once it is known how many there are.
        name(file: u32, count: u32, name: NameSink);
        /// Patterns of the names of files of an earlier output that this one replaces.
        supersedes(patterns: NameSink);
        /// How many rows and bytes are encoded together.
        group() -> (rows: u64, bytes: u64);
        /// What a file begins with.
        begin(file: u32, output: ByteSink);
        /// Encodes rows; many pieces at once, before it is known which file they go to. `note` is for `finish`.
        encode(batches: Moved<ArrowArrayStream>, output: ByteSink, losses: LossSink, note: ByteSink);
        /// What a file ends with.
        finish(file: u32, pieces: Pieces, output: ByteSink);
        /// The names of files over all others.
        sealed(names: NameSink);
        /// All bytes of one of those, once all others are finished.
        seal(sealed: u32, files: WrittenFiles, output: ByteSink);
        /// What the user should know.
        notes(notes: NameSink);
    }
}
