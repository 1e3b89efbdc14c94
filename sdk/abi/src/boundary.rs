//! Everything that crosses the boundary, declared once: each kind of object with its functions, and
//! each request with its facts.
//!
//! The SDK's traits of the same names define what a call means. This file defines the numbers of
//! their facts. Everything that the golden libraries of revision 1.0 were built with never changes.
//! Additions follow after `then`, at the end, with each fact of a request at a multiple of eight
//! bytes.
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
    /// The program, as seen by a library's `init`.
    shared Host: HostTable, HostTableRef, HostCalls, Host {
        /// Returns the revision of the boundary that the host has.
        revision() -> (major: u32, minor: u32);
        /// Shows the user a line, as `Context.log` does.
        log(level: u32, message: Text);
    }
}

object! {
    /// An object whose kind is passed next to it as text. Its table has only the slots that every
    /// table begins with.
    shared Object: ObjectTable, ObjectTableRef, ObjectCalls, Plugin {}
}

object! {
    /// Takes what a library offers.
    sink Registrar: RegistrarTable, RegistrarTableRef, RegistrarCalls, Host {
        /// Adds an object of a kind: `format`. An unknown kind is unsupported; a library that can
        /// do without it may ignore that error.
        add(kind: Text, object: Given<Object>);
    }
}

object! {
    /// What a plugin may know about the run.
    shared Context: ContextTable, ContextTableRef, ContextCalls, Host {
        /// Returns a limit by its name, such as `header_bytes` or `memory_bytes`. `UINT64_MAX`
        /// means that the host does not know the limit; use your own default then.
        limit(name: Text) -> (value: u64);
        /// Returns whether the user has canceled the run.
        cancelled() -> (cancelled: Flag);
        /// Shows the user a line. `level`: 0 error, 1 warning, 2 note, 3 detail (not shown). Any
        /// other number counts as a note.
        log(level: u32, message: Text);
        /// Reports the progress of a long call: `done` of `total` bytes of the input.
        progress(done: u64, total: u64);
        /// Returns what the result is for: the bits of the SDK's `Purpose`. Ignore unknown bits.
        purpose() -> (purpose: u32);
        /// Returns how many threads a call may use.
        threads() -> (threads: u32);
        /// Opens the input that an option of kind 5 names.
        open(path: Text) -> (source: Given<Source>);
        /// Returns a fact by its name; `UINT64_MAX` if the host does not know the name.
        /// `output_is_new`: 1 if the output is a new folder. `input_is_folder`: 1 if
        /// `input_folder` returns a folder.
        attribute(name: Text) -> (value: u64);
    } then {
        /// Opens the folder of the model that is converted. The attribute `input_is_folder` says
        /// whether there is one. Files opened here count as part of the output.
        input_folder() -> (source: Given<Source>);
    }
}

object! {
    /// The files of the input. The plugin may keep the object if the call gives it away.
    shared Source: SourceTable, SourceTableRef, SourceCalls, Host {
        /// Returns what the user named. `kind`: 0 a file, 1 a folder, 2 a prefix.
        entry() -> (kind: u32, name: Text);
        /// Opens a file of the folder by its name.
        open(name: Text) -> (file: u32);
        /// Returns whether there is a file with this name.
        exists(name: Text) -> (exists: Flag);
        /// Lists the names of files that begin with `prefix`, sorted, without folders.
        list(prefix: Text, names: NameSink);
        /// Lists the folders in a folder, sorted.
        folders(folder: Text, names: NameSink);
        /// Returns the length and the name of an open file. A `len` of `UINT64_MAX` means that the
        /// length is not known; a plugin that needs it cannot read such a file.
        info(file: u32) -> (len: u64, name: Text);
        /// Fills the whole buffer from an offset, or fails.
        read_at(file: u32, offset: u64, buffer: BytesMut);
        /// Fills the whole buffer with ranges, one after the other, or fails. A range is three
        /// numbers: file, offset, length.
        read_ranges(ranges: Numbers, buffer: BytesMut);
        /// Announces ranges that will be read soon, in the form of `read_ranges`.
        advise(ranges: Numbers);
    }
}

object! {
    /// Takes names, or other texts.
    sink NameSink: NameSinkTable, NameSinkTableRef, NameSinkCalls, Host {
        /// Adds a name.
        name(name: Text);
    }
}

object! {
    /// Takes numbers.
    sink NumberSink: NumberSinkTable, NumberSinkTableRef, NumberSinkCalls, Host {
        /// Adds some numbers, in order.
        numbers(numbers: Numbers);
    }
}

object! {
    /// Takes bytes in order.
    sink ByteSink: ByteSinkTable, ByteSinkTableRef, ByteSinkCalls, Host {
        /// Appends bytes.
        write(bytes: Bytes);
    }
}

request! {
    /// Content that the other side does not hold.
    LossAt: Loss, LossRef, LossFacts {
        /// The word of the SDK's `LossKind`.
        kind: Text,
        /// 0 lost, 1 changed, 2 a note; an unknown number counts as 0.
        severity: u32,
        /// Whether the user asked for it.
        asked: Flag,
        /// A tensor name, a path in the tree, or a file.
        what: Text,
        /// Why it was not carried.
        why: Text,
    }
}

object! {
    /// Takes losses of rows or of their files.
    sink LossSink: LossSinkTable, LossSinkTableRef, LossSinkCalls, Host {
        /// Adds a loss.
        loss(loss: LossAt);
    }
}

request! {
    /// An option of a format.
    OptionAt: FormatOption, FormatOptionRef, OptionFacts {
        /// 0 of the reader, 1 of the writer.
        side: u32,
        /// Key of the option.
        key: Text,
        /// 0 text, 1 bool, 2 integer, 3 size, 4 one of `choices`, 5 a source, 6 a list of texts,
        /// each of which is passed as a separate pair. A host treats any other number as text.
        kind: u32,
        /// Allowed words, for kind 4.
        choices: Words,
        /// Default value: none or one.
        defaults: Words,
        /// Help for users.
        help: Text,
    }
}

request! {
    /// The name and the capabilities of a format.
    IdentityAt: Identity, IdentityRef, IdentityFacts {
        /// Id for `--from` and `--to`: lowercase letters, digits, dashes.
        id: Text,
        /// Display name.
        title: Text,
        /// The bits of the SDK's `Capabilities`.
        capabilities: u64,
        /// Raised whenever the same input and options would give different bytes.
        output_revision: u32,
    }
}

request! {
    /// Bytes that each file of a format has.
    MagicAt: Magic, MagicRef, MagicFacts {
        /// Offset from the start of the file, or distance from its end.
        offset: u64,
        /// Bytes at that offset.
        bytes: Bytes,
        /// Bits of each byte to compare; as long as `bytes`, or empty to compare all bits.
        mask: Bytes,
        /// Whether `offset` is counted from the end of the file.
        from_end: Flag,
    }
}

object! {
    /// Takes a format's description.
    sink Description: DescriptionTable, DescriptionTableRef, DescriptionCalls, Host {
        /// Sets the name and the capabilities. Must be called first.
        identity(identity: IdentityAt);
        /// Adds a file name ending, with its dot.
        suffix(suffix: Text);
        /// Adds a magic.
        magic(magic: MagicAt);
        /// Adds the name of a file in a folder of this format; `*` matches any run of characters.
        member(pattern: Text);
        /// Adds an option of the reader or the writer.
        option(option: OptionAt);
        /// Adds a fact about the format by its name, such as `specification`: where the format is
        /// specified. The host ignores unknown names.
        attribute(name: Text, value: Text);
    }
}

request! {
    /// The place of bytes of tensors.
    StorageAt: Storage, StorageRef, StorageFacts {
        /// 0 in a file, 1 encoded, 2 inline, 3 joined from ranges of earlier storages.
        kind: u32,
        /// 0 little, 1 big.
        byte_order: u32,
        /// Kind 0: the file.
        file: u32,
        /// Kind 0: offset in the file.
        offset: u64,
        /// Length in bytes, as tensors see it.
        len: u64,
        /// Kind 1: the handle that is passed to the decoder.
        handle: u64,
        /// Kind 2: the bytes.
        bytes: Bytes,
        /// Kind 3: for each range its storage, its offset in that storage, and its length. None of
        /// the storages is itself joined, and all have this byte order.
        ranges: Numbers,
        /// The number of the SDK's `DigestAlgorithm`; 0 if there is no digest.
        digest_algorithm: u32,
        /// The digest that the file stores for these bytes.
        digest: Bytes,
    }
}

request! {
    /// The memory layout of a dtype's elements.
    DtypeAt: Dtype, DtypeRef, DtypeFacts {
        /// Name of the dtype.
        name: Text,
        /// Number of elements that share a block.
        block_elements: u32,
        /// Bytes of a block; 0 if the length depends on the values.
        block_bytes: u32,
        /// Number of bytes that are reversed together if byte orders differ.
        swap_unit: u32,
    }
}

request! {
    /// A tensor that a reader found.
    TensorAt: Tensor, TensorRef, TensorFacts {
        /// Name of the tensor.
        name: Text,
        /// The number that `dtype` returned.
        dtype: u32,
        /// Dimensions, in elements.
        shape: Numbers,
        /// 0 contiguous in one storage, row-major; 1 in blocks; 2 in tiles of one shape.
        kind: u32,
        /// Kind 0: the storage. Kind 2 without `tiles`: the storage of the first tile.
        storage: u32,
        /// Kind 0: offset in the storage, in bytes.
        offset: u64,
        /// Kind 1: for each block its storage, its offset, its origin and shape (rank numbers
        /// each), and its strides (rank numbers, two's complement).
        blocks: Numbers,
        /// Kind 2: the shape of a tile.
        tile: Numbers,
        /// Kind 2: the order of the elements in a tile: 0 row-major, 1 column-major.
        order: u32,
        /// Kind 2: how tiles that reach past the end of the tensor are stored: 0 only the part
        /// inside, 1 whole tiles.
        edges: u32,
        /// Kind 2: the storage of each tile, in row-major order of the tiles; `UINT32_MAX` for an
        /// absent tile.
        tiles: Ids,
        /// Kind 2 without `tiles`: the number of tiles, in storages with consecutive ids.
        tile_count: u32,
        /// Kind 2: the storage of one element, which absent tiles repeat; `UINT32_MAX` for none.
        fill: u32,
    }
}

request! {
    /// A node of the tree of non-tensor state.
    NodeAt: Node, NodeRef, NodeFacts {
        /// The number of the SDK's `NodeKind`.
        kind: u32,
        /// Class of an object.
        class_name: Text,
        /// Bytes of the node itself.
        bytes: Bytes,
        /// Child nodes, in order.
        children: Ids,
    }
}

object! {
    /// Takes what a reader finds.
    sink CatalogSink: CatalogSinkTable, CatalogSinkTableRef, CatalogSinkCalls, Host {
        /// Adds a storage, which holds bytes of tensors.
        storage(storage: StorageAt) -> (id: u32);
        /// Declares a dtype, before the first tensor that has it.
        dtype(dtype: DtypeAt) -> (id: u32);
        /// Adds a tensor.
        tensor(tensor: TensorAt) -> (id: u32);
        /// Adds a node of a value, after its children, which are nodes of values too. No node is a
        /// tensor.
        value(node: NodeAt) -> (id: u32);
        /// Adds a metadata entry: a key, and a number that `value` returned.
        metadata(key: Text, value: u32);
        /// Adds an attribute of a tensor: a key, and a number that `value` returned.
        attribute(tensor: u32, key: Text, value: u32);
        /// Adds a node of the tree, after its children.
        node(node: NodeAt) -> (id: u32);
        /// Sets the root of the tree.
        root(node: u32);
        /// Reports content of the input that the catalog does not hold.
        loss(loss: LossAt);
        /// Sets the format that the input was converted from, if it is not the reader's own.
        origin(format: Text);
        /// Adds a function or class that the input asks its reader to call. It was not called.
        global(name: Text);
    } then {
        /// Adds a step, in the syntax of `--step`, that is applied before all others when the
        /// catalog is converted.
        step(step: Text);
        /// Adds a file to the folder that the tensors are written to.
        sidecar(name: Text, bytes: Bytes);
    }
}

object! {
    /// Takes keys with their values. For each entry, add the nodes, children before their parents,
    /// then the key with the number of the last node.
    sink ValueSink: ValueSinkTable, ValueSinkTableRef, ValueSinkCalls, Host {
        /// Adds a node of a value.
        value(node: NodeAt) -> (id: u32);
        /// Adds a key with a number that `value` returned.
        entry(key: Text, value: u32);
    }
}

object! {
    /// Takes one node.
    sink NodeSink: NodeSinkTable, NodeSinkTableRef, NodeSinkCalls, Host {
        /// Sets the node.
        node(node: NodeAt);
    }
}

request! {
    /// A region of a tensor, and the requested form of its elements.
    RegionAt: TensorRegion, TensorRegionRef, RegionFacts {
        /// The tensor.
        tensor: u32,
        /// Whether only a region of the tensor is meant.
        is_region: Flag,
        /// Origin of the region, followed by its shape.
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
        /// Returns the number of tensors and storages, and the root of the tree; `UINT32_MAX` if
        /// there is no tree.
        counts() -> (tensors: u32, storages: u32, root: u32);
        /// Returns a tensor: its length in bytes, and the first tensor that it is tied to, or
        /// itself.
        tensor(id: u32) -> (name: Text, dtype: u32, shape: Numbers, bytes: u64, tied_to: u32);
        /// Lists at most `most` blocks of a tensor from number `from`, in the form of
        /// `FerryTensor`; fewer or none at the end.
        blocks(tensor: u32, from: u64, most: u64, blocks: NumberSink);
        /// Returns the properties of a dtype that a tensor has.
        dtype(id: u32, name: NameSink) -> (block_elements: u32, block_bytes: u32, swap_unit: u32);
        /// Returns a storage.
        storage(id: u32) -> (len: u64, byte_order: u32);
        /// Lists the metadata, sorted by key.
        metadata(entries: ValueSink);
        /// Lists the attributes of a tensor, sorted by key.
        attributes(tensor: u32, entries: ValueSink);
        /// Returns a node of the tree.
        node(id: u32, node: NodeSink);
        /// Returns the format that the tensors came from.
        origin(name: NameSink);
        /// Fills the whole buffer with logical bytes (row-major, little-endian) of a tensor, from
        /// an offset.
        read(tensor: u32, offset: u64, buffer: BytesMut);
        /// Fills the buffer with all bytes of a region.
        read_region(region: RegionAt, buffer: BytesMut);
    }
}

request! {
    /// A file of the output.
    FileAt: OutputFile, OutputFileRef, FileFacts {
        /// Path in the output folder.
        path: Text,
        /// 0 data, 1 index.
        role: u32,
        /// 0 laid out, 1 streamed by the plan, 2 written after all others.
        kind: u32,
        /// Kind 1: the tensors in the file.
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
        /// Whether only a region of the tensor is meant.
        is_region: Flag,
        /// Origin of the region, followed by its shape.
        region: Numbers,
        /// 0 C, 1 Fortran.
        order: u32,
        /// 0 little, 1 big.
        byte_order: u32,
    }
}

request! {
    /// Raw bytes of a storage in a file.
    StoragePartAt: StoragePart, StoragePartRef, StoragePartFacts {
        /// The file.
        file: u32,
        /// The storage.
        storage: u32,
        /// Offset in the storage.
        offset: u64,
        /// Number of bytes.
        len: u64,
        /// Number of bytes that are reversed together if the storage is big-endian.
        swap_unit: u32,
    }
}

request! {
    /// Bytes of a file of another input, which an option of kind 5 names.
    CopyAt: SourceCopy, SourceCopyRef, CopyFacts {
        /// The output file.
        file: u32,
        /// The path that was passed to `Context.open`.
        source: Text,
        /// Name of the file in that input.
        name: Text,
        /// Offset in that file.
        offset: u64,
        /// Number of bytes.
        len: u64,
    }
}

request! {
    /// Bytes of a file that the plan encodes.
    EncodedAt: EncodedSegment, EncodedSegmentRef, EncodedFacts {
        /// The file.
        file: u32,
        /// Length in bytes; `UINT64_MAX` if it is not known in advance.
        len: u64,
        /// The tensors in the segment.
        tensors: Ids,
        /// Whether the segment holds only a region of its single tensor.
        is_region: Flag,
        /// Origin of the region, followed by its shape.
        region: Numbers,
    }
}

request! {
    /// A request for a digest of bytes of a file.
    DigestAt: DigestRequest, DigestRequestRef, DigestFacts {
        /// The file.
        file: u32,
        /// Offset of the first byte.
        start: u64,
        /// Offset after the last byte.
        end: u64,
        /// The number of the SDK's `DigestAlgorithm`.
        algorithm: u32,
    }
}

object! {
    /// Takes the plan of a writer.
    sink LayoutSink: LayoutSinkTable, LayoutSinkTableRef, LayoutSinkCalls, Host {
        /// Adds a file.
        file(file: FileAt) -> (id: u32);
        /// Appends literal bytes, and returns their offset.
        bytes(file: u32, bytes: Bytes) -> (offset: u64);
        /// Appends a tensor or part of a tensor.
        tensor(part: PartAt) -> (offset: u64);
        /// Appends a storage or part of a storage.
        storage(part: StoragePartAt) -> (offset: u64);
        /// Appends bytes of another input.
        copy(copy: CopyAt) -> (offset: u64);
        /// Appends zeros.
        pad(file: u32, len: u64) -> (offset: u64);
        /// Appends bytes that `encode` produces. A segment of unknown length counts as one byte in
        /// the offsets of what follows it and in the ranges of digests.
        encoded(segment: EncodedAt) -> (id: u32, offset: u64);
        /// Appends bytes that `seal` supplies.
        deferred(file: u32, len: u64) -> (id: u32);
        /// Requests a digest for `seal`.
        digest(digest: DigestAt) -> (id: u32);
        /// Declares that the output holds `tensor` as `of`, which it is tied to.
        alias(tensor: u32, of: u32);
        /// Leaves a tensor out of the output.
        omit(tensor: u32, why: Text);
        /// Reports content that the output does not hold.
        loss(loss: LossAt);
        /// Declares the name of a tensor in the output, if it differs.
        written_as(tensor: u32, name: Text);
        /// Declares that a tensor is part of the writer's literal bytes.
        held_in_bytes(tensor: u32);
        /// Declares files of an earlier output that this one replaces.
        supersedes(pattern: Text, role: u32);
    }
}

object! {
    /// The digests that a layout requested.
    sink Digests: DigestsTable, DigestsTableRef, DigestsCalls, Host {
        /// Returns a digest.
        get(id: u32, value: ByteSink) -> (algorithm: u32);
        /// Returns the final place of an encoded segment, and the note of `encode`.
        encoded(id: u32, note: ByteSink) -> (offset: u64, len: u64);
        /// Returns the length of a file in bytes.
        file_len(file: u32) -> (len: u64);
    }
}

object! {
    /// Takes the bytes that depend on digests.
    sink SealSink: SealSinkTable, SealSinkTableRef, SealSinkCalls, Host {
        /// Sets all bytes of a deferred segment.
        deferred(id: u32, bytes: Bytes);
        /// Appends to a late file.
        late(file: u32, bytes: Bytes);
    }
}

object! {
    /// A format.
    shared Format: FormatTable, FormatTableRef, FormatCalls, Plugin {
        /// Describes the format.
        describe(description: Description);
        /// Returns how likely this input is of the format, from 0 to 100; -1 to use the declared
        /// magic, suffixes and members.
        probe(source: Source, context: Context) -> (score: i64);
        /// Creates a reader with these options, which are checked, with defaults filled in.
        tensor_reader(options: Pairs) -> (reader: Given<TensorReader>);
        /// Creates a writer with these options.
        tensor_writer(options: Pairs) -> (writer: Given<TensorWriter>);
        /// Creates a reader of rows with these options.
        record_reader(options: Pairs) -> (reader: Given<RecordReader>);
        /// Creates a writer of rows with these options.
        record_writer(options: Pairs) -> (writer: Given<RecordWriter>);
    }
}

object! {
    /// A reader of tensors: describes what an input holds.
    shared TensorReader: TensorReaderTable, TensorReaderTableRef, TensorReaderCalls, Plugin {
        /// Fills the catalog, and returns the decoder of its encoded storages.
        read(source: Source, catalog: CatalogSink, context: Context) -> (decoder: Given<TensorDecoder>);
    }
}

object! {
    /// Decodes the encoded storages of an input that was read.
    shared TensorDecoder: TensorDecoderTable, TensorDecoderTableRef, TensorDecoderCalls, Plugin {
        /// Pushes all decoded bytes of a storage, in order.
        decode(source: Source, handle: u64, output: ByteSink, context: Context);
    }
}

object! {
    /// A writer of tensors: plans an output.
    shared TensorWriter: TensorWriterTable, TensorWriterTableRef, TensorWriterCalls, Plugin {
        /// Plans the files. `target_kind`: 0 a file, 1 a folder.
        plan(catalog: CatalogView, target_kind: u32, target_name: Text, layout: LayoutSink, context: Context)
            -> (plan: Given<TensorPlan>);
    } then {
        /// Lists, before `plan`, the steps that turn this catalog into one that the output can
        /// hold, in the syntax of `--step`.
        steps(catalog: CatalogView, steps: NameSink, context: Context);
    }
}

object! {
    /// The plan of an output of tensors.
    shared TensorPlan: TensorPlanTable, TensorPlanTableRef, TensorPlanCalls, Plugin {
        /// Pushes the bytes of a streamed file, in order.
        stream(file: u32, catalog: CatalogView, output: ByteSink, context: Context);
        /// Pushes the bytes of an encoded segment, in order. The host encodes many segments at
        /// once. `note` is kept for `seal`.
        encode(id: u32, catalog: CatalogView, output: ByteSink, note: ByteSink, context: Context);
        /// Supplies the deferred bytes and the late files.
        seal(digests: Digests, output: SealSink, context: Context);
    }
}

object! {
    /// A reader of rows: opens inputs.
    shared RecordReader: RecordReaderTable, RecordReaderTableRef, RecordReaderCalls, Plugin {
        /// Opens an input, which the set keeps.
        open(source: Given<Source>, losses: LossSink, context: Context) -> (set: Given<RecordSet>);
        /// Writes an index, and returns the number of records and bytes that it covers.
        index(source: Source, output: ByteSink, context: Context) -> (records: u64, bytes: u64);
    }
}

request! {
    /// A part of the input that is read independently.
    SplitAt: Split, SplitRef, SplitFacts {
        /// Name of its file.
        file: Text,
        /// Offset of its first byte.
        offset: u64,
        /// Length in bytes.
        bytes: u64,
        /// Number of records; `UINT64_MAX` if unknown.
        records: u64,
    }
}

object! {
    /// Takes splits.
    sink SplitSink: SplitSinkTable, SplitSinkTableRef, SplitSinkCalls, Host {
        /// Adds the next split.
        split(split: SplitAt);
    }
}

request! {
    /// A record that was skipped.
    SkippedAt: Skipped, SkippedRef, SkippedFacts {
        /// Name of its file.
        file: Text,
        /// Number of the record; `UINT64_MAX` if unknown.
        record: u64,
        /// Offset of its first byte.
        offset: u64,
        /// Why it was skipped.
        why: Text,
    }
}

object! {
    /// Takes records that were skipped.
    sink SkippedSink: SkippedSinkTable, SkippedSinkTableRef, SkippedSinkCalls, Host {
        /// Adds a skipped record.
        skipped(skipped: SkippedAt);
    }
}

request! {
    /// The requested rows and columns.
    ScanAt: Scan, ScanRef, ScanFacts {
        /// The split.
        split: u32,
        /// Whether only the fields in `columns` are requested.
        is_projected: Flag,
        /// The fields, in ascending order: for each the length of its path, then the path: the
        /// index of a column, then indices within structs.
        columns: Ids,
        /// First requested row of the split, counted before any comparison.
        first_row: u64,
        /// Maximum number of rows from there; `UINT64_MAX` for all.
        limit: u64,
        /// Maximum rows of a batch.
        rows: u64,
        /// Approximate bytes of a batch.
        bytes: u64,
    }
}

object! {
    /// Comparisons that are all true of every row that the host keeps. A plugin may leave out rows
    /// for which one is false; the host checks again.
    shared Predicate: PredicateTable, PredicateTableRef, PredicateCalls, Host {
        /// Returns the number of comparisons.
        count() -> (count: u32);
        /// Returns a comparison: a path as in `FerryScan`, the values to compare with, and the
        /// comparator: 0 equal, 1 unequal, 2 less, 3 less or equal, 4 greater, 5 greater or equal,
        /// 6 missing, 7 not missing, 8 equal to one of the values. A plugin ignores a comparison
        /// whose comparator or values it does not know.
        comparison(index: u32, values: NodeSink) -> (column: Ids, comparator: u32);
    }
}

object! {
    /// An opened input of rows.
    shared RecordSet: RecordSetTable, RecordSetTableRef, RecordSetCalls, Plugin {
        /// Returns the columns.
        schema() -> (schema: ArrowSchema);
        /// Lists the splits, in order.
        splits(splits: SplitSink);
        /// Returns a stream of rows. If the stream reports an error, `fault` returns the full error
        /// for its ticket.
        scan(scan: ScanAt, predicate: Predicate) -> (stream: ArrowArrayStream, ticket: u64);
        /// Fails once with the error of the stream of this ticket.
        fault(ticket: u64);
        /// Writes at most `most` records of a split as JSON lines. Sets `written` to `UINT64_MAX`
        /// if the format has no mapping of its own.
        json(split: u32, most: u64, output: ByteSink) -> (written: u64);
        /// Lists the records that were skipped.
        skipped(skipped: SkippedSink);
        /// Reports content of the input that the columns do not hold.
        losses(losses: LossSink);
    }
}

request! {
    /// The requested output of rows.
    OutputAt: RecordOutput, RecordOutputRef, OutputFacts {
        /// Number of rows; `UINT64_MAX` if unknown.
        rows: u64,
        /// 0 a file, 1 a folder.
        target_kind: u32,
        /// Name of the file.
        target_name: Text,
    }
}

object! {
    /// A writer of rows: plans outputs.
    shared RecordWriter: RecordWriterTable, RecordWriterTableRef, RecordWriterCalls, Plugin {
        /// Plans the files.
        plan(schema: Moved<ArrowSchema>, output: OutputAt, losses: LossSink, context: Context)
            -> (plan: Given<RecordPlan>);
    }
}

object! {
    /// The encoded pieces of a file, in order.
    shared Pieces: PiecesTable, PiecesTableRef, PiecesCalls, Host {
        /// Returns the number of pieces.
        count() -> (count: u64);
        /// Returns a piece: its place, and the note of `encode`.
        piece(index: u64) -> (offset: u64, len: u64, rows: u64, note: Bytes);
    }
}

object! {
    /// The finished files of an output of rows, in order.
    shared WrittenFiles: WrittenFilesTable, WrittenFilesTableRef, WrittenFilesCalls, Host {
        /// Returns the number of files.
        count() -> (count: u64);
        /// Returns a file: its name, its length in bytes, and its number of pieces.
        file(index: u64) -> (name: Text, bytes: u64, pieces: u64);
        /// Returns a piece of a file, as in `FerryPieces`.
        piece(file: u64, index: u64) -> (offset: u64, len: u64, rows: u64, note: Bytes);
    }
}

object! {
    /// The plan of an output of rows.
    shared RecordPlan: RecordPlanTable, RecordPlanTableRef, RecordPlanCalls, Plugin {
        /// Lists the names of its files; none for a plan that rolls.
        files(names: NameSink);
        /// Returns when a file is full and the next one begins. `kind`: 0 the plan does not roll, 1
        /// at `size` rows, 2 before a piece that would make the file longer than `size` bytes.
        roll() -> (kind: u32, size: u64);
        /// Returns the name of a file of a plan that rolls, once the number of files is known.
        name(file: u32, count: u32, name: NameSink);
        /// Lists patterns of names of files of an earlier output that this one replaces.
        supersedes(patterns: NameSink);
        /// Returns how many rows and bytes are encoded together.
        group() -> (rows: u64, bytes: u64);
        /// Writes the head of a file.
        begin(file: u32, output: ByteSink);
        /// Encodes rows as a piece. The host encodes many pieces at once, before it is known which
        /// file they go to. `note` is kept for `finish`.
        encode(batches: Moved<ArrowArrayStream>, output: ByteSink, losses: LossSink, note: ByteSink);
        /// Writes the tail of a file.
        finish(file: u32, pieces: Pieces, output: ByteSink);
        /// Lists the names of files that describe all others.
        sealed(names: NameSink);
        /// Writes all bytes of one of the `sealed` files, once all others are finished.
        seal(sealed: u32, files: WrittenFiles, output: ByteSink);
        /// Lists notes for the user.
        notes(notes: NameSink);
    }
}
