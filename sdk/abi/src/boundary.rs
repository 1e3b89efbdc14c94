//! Declares everything that crosses the boundary: each kind of object with its functions, and each
//! request with its fields.
//!
//! The SDK's traits with the same names define the meaning of each call. This file defines the
//! numbers that the calls and requests use. Declarations that the golden libraries of revision 1.0
//! contain never change. Additions are placed at the end, after `then`. Each added field of a
//! request starts at a multiple of eight bytes.
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
    /// The host program, as passed to the `init` function of a library.
    shared Host: HostTable, HostTableRef, HostCalls, Host {
        /// Returns the revision of the boundary that the host supports.
        revision() -> (major: u32, minor: u32);
        /// Shows the user a line of text, like `Context.log`.
        log(level: u32, message: Text);
    }
}

object! {
    /// An object whose kind is passed separately as text. The object's table contains only the
    /// slots with which every table begins.
    shared Object: ObjectTable, ObjectTableRef, ObjectCalls, Plugin {}
}

object! {
    /// Receives the objects that a library offers.
    sink Registrar: RegistrarTable, RegistrarTableRef, RegistrarCalls, Host {
        /// Adds an object of the given kind, such as `format`. If the host does not know the kind,
        /// the call fails with FERRY_UNSUPPORTED. A library may ignore that error if it does not
        /// require the object.
        add(kind: Text, object: Given<Object>);
    }
}

object! {
    /// Information for the plugin about the current run.
    shared Context: ContextTable, ContextTableRef, ContextCalls, Host {
        /// Returns a limit by its name, such as `header_bytes` or `memory_bytes`. If the host does
        /// not know the limit, it returns `UINT64_MAX`. Use your own default then.
        limit(name: Text) -> (value: u64);
        /// Returns whether the user has canceled the run.
        cancelled() -> (cancelled: Flag);
        /// Shows the user a line of text. `level`: 0 error, 1 warning, 2 note, 3 detail (not
        /// shown). Any other number counts as a note.
        log(level: u32, message: Text);
        /// Reports the progress of a long call: it has processed `done` of the input's `total`
        /// bytes.
        progress(done: u64, total: u64);
        /// Returns the purpose for which the input is read, as bits of the SDK's `Purpose`.
        /// Ignore unknown bits.
        purpose() -> (purpose: u32);
        /// Returns the number of threads that a call may use.
        threads() -> (threads: u32);
        /// Opens an input that the user passed as the value of an option of kind 5.
        open(path: Text) -> (source: Given<Source>);
        /// Returns an attribute of the run by its name, or `UINT64_MAX` if the host does not know
        /// the name. `output_is_new` is 1 if the output is a new folder. `input_is_folder` is 1 if
        /// `input_folder` returns a folder.
        attribute(name: Text) -> (value: u64);
    } then {
        /// Opens the folder of the model that is being converted. The attribute `input_is_folder`
        /// reports whether there is such a folder. Files that are opened here count as part of the
        /// output.
        input_folder() -> (source: Given<Source>);
    }
}

object! {
    /// The files of an input. If the call transfers ownership of the object, the plugin may keep
    /// the object.
    shared Source: SourceTable, SourceTableRef, SourceCalls, Host {
        /// Returns the kind and name of the input that the user passed. `kind`: 0 a file, 1 a
        /// folder, 2 a prefix.
        entry() -> (kind: u32, name: Text);
        /// Opens a file of the input by its name.
        open(name: Text) -> (file: u32);
        /// Returns whether the input contains a file with this name.
        exists(name: Text) -> (exists: Flag);
        /// Lists the files whose names begin with `prefix`, in sorted order. Folders are not
        /// listed.
        list(prefix: Text, names: NameSink);
        /// Lists the folders inside a folder, in sorted order.
        folders(folder: Text, names: NameSink);
        /// Returns the length and the name of an open file. A `len` of `UINT64_MAX` means that the
        /// length is unknown. A plugin that needs the length cannot read such a file.
        info(file: u32) -> (len: u64, name: Text);
        /// Fills the whole buffer with bytes of the file, starting at `offset`, or fails.
        read_at(file: u32, offset: u64, buffer: BytesMut);
        /// Fills the whole buffer with the bytes of all ranges, in order, or fails. Each range is
        /// three numbers: file, offset and length.
        read_ranges(ranges: Numbers, buffer: BytesMut);
        /// Announces ranges that will be read soon. The ranges are encoded as in `read_ranges`.
        advise(ranges: Numbers);
    }
}

object! {
    /// Receives names or other strings.
    sink NameSink: NameSinkTable, NameSinkTableRef, NameSinkCalls, Host {
        /// Adds a name.
        name(name: Text);
    }
}

object! {
    /// Receives numbers.
    sink NumberSink: NumberSinkTable, NumberSinkTableRef, NumberSinkCalls, Host {
        /// Appends numbers, in order.
        numbers(numbers: Numbers);
    }
}

object! {
    /// Receives bytes, in order.
    sink ByteSink: ByteSinkTable, ByteSinkTableRef, ByteSinkCalls, Host {
        /// Appends bytes.
        write(bytes: Bytes);
    }
}

request! {
    /// Content that is lost or changed because the receiving side cannot represent it.
    LossAt: Loss, LossRef, LossFacts {
        /// The kind of the loss, as the text form of the SDK's `LossKind`.
        kind: Text,
        /// The severity: 0 lost, 1 changed, 2 a note. An unknown number counts as 0.
        severity: u32,
        /// Whether the user requested the loss.
        asked: Flag,
        /// The affected content: a tensor name, a path in the tree, or a file.
        what: Text,
        /// The reason for the loss.
        why: Text,
    }
}

object! {
    /// Receives the losses of rows or of files that contain rows.
    sink LossSink: LossSinkTable, LossSinkTableRef, LossSinkCalls, Host {
        /// Adds a loss.
        loss(loss: LossAt);
    }
}

request! {
    /// An option of a format.
    OptionAt: FormatOption, FormatOptionRef, OptionFacts {
        /// The side to which the option belongs: 0 the reader, 1 the writer.
        side: u32,
        /// Key of the option.
        key: Text,
        /// The kind of the value: 0 text, 1 bool, 2 integer, 3 size, 4 one of `choices`, 5 a
        /// source, 6 a list of strings. Each string in a list is passed as a separate pair. A host
        /// treats any other number as text.
        kind: u32,
        /// The allowed words for kind 4.
        choices: Words,
        /// The default value, as a list of zero or one words.
        defaults: Words,
        /// The help text for users.
        help: Text,
    }
}

request! {
    /// The name and the capabilities of a format.
    IdentityAt: Identity, IdentityRef, IdentityFacts {
        /// The id for `--from` and `--to`, which consists of lowercase letters, digits and dashes.
        id: Text,
        /// The display name of the format.
        title: Text,
        /// The capabilities of the format, as bits of the SDK's `Capabilities`.
        capabilities: u64,
        /// A number that increases whenever the bytes that the same input and options produce
        /// change.
        output_revision: u32,
    }
}

request! {
    /// Bytes that are the same in every file of a format.
    MagicAt: Magic, MagicRef, MagicFacts {
        /// The offset of the magic from the start of the file, or its distance from the end.
        offset: u64,
        /// The expected bytes at that offset.
        bytes: Bytes,
        /// A mask of the bits to compare in each byte. The mask is as long as `bytes`, or empty to
        /// compare all bits.
        mask: Bytes,
        /// Whether `offset` is counted from the end of the file.
        from_end: Flag,
    }
}

object! {
    /// Receives the description of a format.
    sink Description: DescriptionTable, DescriptionTableRef, DescriptionCalls, Host {
        /// Sets the name and the capabilities. Call this function before all others.
        identity(identity: IdentityAt);
        /// Adds a file name suffix, including its dot.
        suffix(suffix: Text);
        /// Adds a magic of the format.
        magic(magic: MagicAt);
        /// Adds a pattern for the names of files in a folder of this format. `*` matches any
        /// characters.
        member(pattern: Text);
        /// Adds an option of the reader or the writer.
        option(option: OptionAt);
        /// Adds an attribute of the format by its name. For example, `specification` refers to the
        /// document that specifies the format. The host ignores unknown names.
        attribute(name: Text, value: Text);
    }
}

request! {
    /// A range of bytes that tensors refer to, and the location of the bytes.
    StorageAt: Storage, StorageRef, StorageFacts {
        /// The location of the bytes: 0 in a file, 1 encoded, 2 inline, 3 joined from ranges of
        /// earlier storages.
        kind: u32,
        /// The byte order: 0 little-endian, 1 big-endian.
        byte_order: u32,
        /// Kind 0: the file that contains the bytes.
        file: u32,
        /// Kind 0: the offset in that file.
        offset: u64,
        /// The length in bytes, after decoding.
        len: u64,
        /// Kind 1: the handle to pass to the decoder.
        handle: u64,
        /// Kind 2: the bytes themselves.
        bytes: Bytes,
        /// Kind 3: for each range, its storage, its offset in that storage, and its length. None of
        /// these storages is joined from others, and all of them have the byte order of this
        /// storage.
        ranges: Numbers,
        /// The number of the SDK's `DigestAlgorithm`, or 0 if the file has no digest.
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
        /// The number of elements in a block.
        block_elements: u32,
        /// The number of bytes in a block, or 0 if the length depends on the values.
        block_bytes: u32,
        /// The number of bytes to reverse as a unit if the byte orders differ.
        swap_unit: u32,
    }
}

request! {
    /// A tensor of the input, reported by a reader.
    TensorAt: Tensor, TensorRef, TensorFacts {
        /// Name of the tensor.
        name: Text,
        /// The number of the dtype, as returned by `dtype`.
        dtype: u32,
        /// The dimensions of the tensor, in elements.
        shape: Numbers,
        /// The arrangement of the elements: 0 contiguous in one storage and row-major, 1 in blocks,
        /// 2 in tiles of one shape.
        kind: u32,
        /// Kind 0: the storage. Kind 2 without `tiles`: the storage of the first tile.
        storage: u32,
        /// Kind 0: the offset in the storage, in bytes.
        offset: u64,
        /// Kind 1: for each block, its storage, its offset, its origin, its shape and its strides.
        /// The origin, shape and strides are lists with one number per dimension. Strides are in
        /// two's complement.
        blocks: Numbers,
        /// Kind 2: the shape of a tile.
        tile: Numbers,
        /// Kind 2: the order of the elements in a tile. 0 is row-major, and 1 is column-major.
        order: u32,
        /// Kind 2: the storage of tiles that extend past the end of the tensor. 0 stores only the
        /// part inside the tensor, and 1 stores whole tiles.
        edges: u32,
        /// Kind 2: the storage of each tile, in row-major order of the tiles. `UINT32_MAX` marks a
        /// missing tile.
        tiles: Ids,
        /// Kind 2 without `tiles`: the number of tiles. The storages of the tiles have consecutive
        /// ids.
        tile_count: u32,
        /// Kind 2: the storage of the single element that fills missing tiles, or `UINT32_MAX` for
        /// none.
        fill: u32,
    }
}

request! {
    /// A node of the tree of values that are not tensors.
    NodeAt: Node, NodeRef, NodeFacts {
        /// The kind of the node, as a number of the SDK's `NodeKind`.
        kind: u32,
        /// The class name, if the node is an object.
        class_name: Text,
        /// The value of the node, encoded as bytes.
        bytes: Bytes,
        /// The child nodes, in order.
        children: Ids,
    }
}

object! {
    /// Receives the content that a reader finds in the input.
    sink CatalogSink: CatalogSinkTable, CatalogSinkTableRef, CatalogSinkCalls, Host {
        /// Adds a storage, which contains the bytes of tensors.
        storage(storage: StorageAt) -> (id: u32);
        /// Declares a dtype. Call this function before you add the first tensor of that dtype.
        dtype(dtype: DtypeAt) -> (id: u32);
        /// Adds a tensor.
        tensor(tensor: TensorAt) -> (id: u32);
        /// Adds a node of a value. Add the node's children first. The value must not contain
        /// tensors.
        value(node: NodeAt) -> (id: u32);
        /// Adds a metadata entry: a key, and the number that `value` returned for its value.
        metadata(key: Text, value: u32);
        /// Adds an attribute of a tensor: a key, and the number that `value` returned for its
        /// value.
        attribute(tensor: u32, key: Text, value: u32);
        /// Adds a node of the tree, after its children have been added.
        node(node: NodeAt) -> (id: u32);
        /// Sets the root of the tree.
        root(node: u32);
        /// Reports content of the input that the catalog does not contain.
        loss(loss: LossAt);
        /// Sets the original format of a converted input, if it differs from this reader's format.
        origin(format: Text);
        /// Reports a function or class that the input asks its reader to call. ferry does not call
        /// it.
        global(name: Text);
    } then {
        /// Adds a step in the syntax of `--step`. When the input is converted, the step is applied
        /// before all other steps.
        step(step: Text);
        /// Adds a file to the output folder, next to the tensors.
        sidecar(name: Text, bytes: Bytes);
    }
}

object! {
    /// Receives keys and their values. For each entry, add the nodes of the value, children before
    /// their parents. Then add the key with the number of the last node.
    sink ValueSink: ValueSinkTable, ValueSinkTableRef, ValueSinkCalls, Host {
        /// Adds a node of a value, after its children have been added.
        value(node: NodeAt) -> (id: u32);
        /// Adds a key with the number that `value` returned for its value.
        entry(key: Text, value: u32);
    }
}

object! {
    /// Receives one node.
    sink NodeSink: NodeSinkTable, NodeSinkTableRef, NodeSinkCalls, Host {
        /// Sets the node.
        node(node: NodeAt);
    }
}

request! {
    /// A tensor or a region of a tensor, and the requested order of the elements and bytes.
    RegionAt: TensorRegion, TensorRegionRef, RegionFacts {
        /// The tensor.
        tensor: u32,
        /// Whether `region` selects only a part of the tensor.
        is_region: Flag,
        /// The origin of the region, followed by the shape of the region.
        region: Numbers,
        /// The order of the elements: 0 C, 1 Fortran.
        order: u32,
        /// The byte order: 0 little-endian, 1 big-endian.
        byte_order: u32,
    }
}

object! {
    /// The catalog of tensors that a writer writes.
    shared CatalogView: CatalogViewTable, CatalogViewTableRef, CatalogViewCalls, Host {
        /// Returns the numbers of tensors and storages, and the root of the tree. `root` is
        /// `UINT32_MAX` if the catalog has no tree.
        counts() -> (tensors: u32, storages: u32, root: u32);
        /// Returns a tensor. `bytes` is its length in bytes. `tied_to` is the first tensor that
        /// refers to the same bytes, or the tensor itself.
        tensor(id: u32) -> (name: Text, dtype: u32, shape: Numbers, bytes: u64, tied_to: u32);
        /// Lists up to `most` blocks of a tensor, starting with block number `from`. The blocks are
        /// encoded as in `FerryTensor`. Past the last block, the list is shorter or empty.
        blocks(tensor: u32, from: u64, most: u64, blocks: NumberSink);
        /// Returns the properties of a dtype that a tensor uses.
        dtype(id: u32, name: NameSink) -> (block_elements: u32, block_bytes: u32, swap_unit: u32);
        /// Returns the properties of a storage.
        storage(id: u32) -> (len: u64, byte_order: u32);
        /// Lists the metadata, sorted by key.
        metadata(entries: ValueSink);
        /// Lists the attributes of a tensor, sorted by key.
        attributes(tensor: u32, entries: ValueSink);
        /// Returns a node of the tree.
        node(id: u32, node: NodeSink);
        /// Returns the name of the format from which the tensors were read.
        origin(name: NameSink);
        /// Fills the whole buffer with bytes of a tensor in row-major, little-endian form, starting
        /// at `offset`.
        read(tensor: u32, offset: u64, buffer: BytesMut);
        /// Fills the buffer with all bytes of a region of a tensor.
        read_region(region: RegionAt, buffer: BytesMut);
    }
}

request! {
    /// A file of the output.
    FileAt: OutputFile, OutputFileRef, FileFacts {
        /// The path of the file, relative to the output folder.
        path: Text,
        /// The role of the file: 0 data, 1 index.
        role: u32,
        /// How the file is written: 0 laid out in segments, 1 streamed by the plan, 2 after all
        /// other files.
        kind: u32,
        /// Kind 1: the tensors in the file.
        tensors: Ids,
    }
}

request! {
    /// A tensor or a region of a tensor, to be written to a file.
    PartAt: TensorPart, TensorPartRef, PartFacts {
        /// The output file.
        file: u32,
        /// The tensor.
        tensor: u32,
        /// Whether `region` selects only a part of the tensor.
        is_region: Flag,
        /// The origin of the region, followed by the shape of the region.
        region: Numbers,
        /// The order of the elements: 0 C, 1 Fortran.
        order: u32,
        /// The byte order: 0 little-endian, 1 big-endian.
        byte_order: u32,
    }
}

request! {
    /// Bytes of a storage, to be written to a file without conversion.
    StoragePartAt: StoragePart, StoragePartRef, StoragePartFacts {
        /// The output file.
        file: u32,
        /// The storage.
        storage: u32,
        /// The offset of the first byte in the storage.
        offset: u64,
        /// The number of bytes to write.
        len: u64,
        /// The number of bytes to reverse as a unit if the storage is big-endian.
        swap_unit: u32,
    }
}

request! {
    /// Bytes to copy from a file of another input. An option of kind 5 names that input.
    CopyAt: SourceCopy, SourceCopyRef, CopyFacts {
        /// The output file.
        file: u32,
        /// The path that was passed to `Context.open`.
        source: Text,
        /// The name of the source file in that input.
        name: Text,
        /// The offset of the first byte in the source file.
        offset: u64,
        /// The number of bytes to copy.
        len: u64,
    }
}

request! {
    /// A segment of a file that the plan encodes.
    EncodedAt: EncodedSegment, EncodedSegmentRef, EncodedFacts {
        /// The output file.
        file: u32,
        /// The length in bytes, or `UINT64_MAX` if it is not known in advance.
        len: u64,
        /// The tensors that the segment contains.
        tensors: Ids,
        /// Whether the segment contains only a region of its single tensor.
        is_region: Flag,
        /// The origin of the region, followed by the shape of the region.
        region: Numbers,
    }
}

request! {
    /// A request for the digest of a range of bytes in an output file.
    DigestAt: DigestRequest, DigestRequestRef, DigestFacts {
        /// The output file.
        file: u32,
        /// The offset of the first byte.
        start: u64,
        /// The offset after the last byte.
        end: u64,
        /// The number of the SDK's `DigestAlgorithm`.
        algorithm: u32,
    }
}

object! {
    /// Receives the plan of a writer.
    sink LayoutSink: LayoutSinkTable, LayoutSinkTableRef, LayoutSinkCalls, Host {
        /// Adds a file to the output.
        file(file: FileAt) -> (id: u32);
        /// Appends literal bytes to a file, and returns their offset.
        bytes(file: u32, bytes: Bytes) -> (offset: u64);
        /// Appends a tensor or part of a tensor, and returns its offset.
        tensor(part: PartAt) -> (offset: u64);
        /// Appends a storage or part of a storage, and returns its offset.
        storage(part: StoragePartAt) -> (offset: u64);
        /// Appends bytes of another input, and returns their offset.
        copy(copy: CopyAt) -> (offset: u64);
        /// Appends zeros, and returns their offset.
        pad(file: u32, len: u64) -> (offset: u64);
        /// Appends bytes that `encode` produces, and returns the id and offset of the segment. In
        /// later offsets and in the ranges of digests, a segment of unknown length counts as one
        /// byte.
        encoded(segment: EncodedAt) -> (id: u32, offset: u64);
        /// Appends bytes that `seal` supplies later.
        deferred(file: u32, len: u64) -> (id: u32);
        /// Requests a digest that `seal` can use.
        digest(digest: DigestAt) -> (id: u32);
        /// Declares that the output stores `tensor` only as `of`, a tensor to which it is tied.
        alias(tensor: u32, of: u32);
        /// Omits a tensor from the output, for the reason `why`.
        omit(tensor: u32, why: Text);
        /// Reports content that the output will not contain.
        loss(loss: LossAt);
        /// Declares a tensor's name in the output, if that name differs from the name in the
        /// catalog.
        written_as(tensor: u32, name: Text);
        /// Declares that the writer's literal bytes contain a tensor.
        held_in_bytes(tensor: u32);
        /// Declares a pattern for the names of files from an earlier output, which this output
        /// replaces.
        supersedes(pattern: Text, role: u32);
    }
}

object! {
    /// The digests that a layout requested, and the final locations of its segments.
    sink Digests: DigestsTable, DigestsTableRef, DigestsCalls, Host {
        /// Returns a digest and its algorithm.
        get(id: u32, value: ByteSink) -> (algorithm: u32);
        /// Returns the final location of an encoded segment, and the note that `encode` produced.
        encoded(id: u32, note: ByteSink) -> (offset: u64, len: u64);
        /// Returns the length of a file in bytes.
        file_len(file: u32) -> (len: u64);
    }
}

object! {
    /// Receives the bytes that depend on digests.
    sink SealSink: SealSinkTable, SealSinkTableRef, SealSinkCalls, Host {
        /// Sets all bytes of a deferred segment.
        deferred(id: u32, bytes: Bytes);
        /// Appends bytes to a file of kind 2, which is written after all other files.
        late(file: u32, bytes: Bytes);
    }
}

object! {
    /// A format that a plugin implements.
    shared Format: FormatTable, FormatTableRef, FormatCalls, Plugin {
        /// Describes the format.
        describe(description: Description);
        /// Returns the likelihood, from 0 to 100, that the input has this format. Returns -1 to use
        /// the declared magic, suffixes and members instead.
        probe(source: Source, context: Context) -> (score: i64);
        /// Creates a reader of tensors with these options. The host has already checked the options
        /// and filled in the defaults.
        tensor_reader(options: Pairs) -> (reader: Given<TensorReader>);
        /// Creates a writer of tensors with these options.
        tensor_writer(options: Pairs) -> (writer: Given<TensorWriter>);
        /// Creates a reader of rows with these options.
        record_reader(options: Pairs) -> (reader: Given<RecordReader>);
        /// Creates a writer of rows with these options.
        record_writer(options: Pairs) -> (writer: Given<RecordWriter>);
    }
}

object! {
    /// A reader of tensors, which describes the content of an input.
    shared TensorReader: TensorReaderTable, TensorReaderTableRef, TensorReaderCalls, Plugin {
        /// Fills the catalog, and returns the decoder for its encoded storages.
        read(source: Source, catalog: CatalogSink, context: Context) -> (decoder: Given<TensorDecoder>);
    }
}

object! {
    /// Decodes the encoded storages of an input.
    shared TensorDecoder: TensorDecoderTable, TensorDecoderTableRef, TensorDecoderCalls, Plugin {
        /// Writes all decoded bytes of a storage to `output`, in order.
        decode(source: Source, handle: u64, output: ByteSink, context: Context);
    }
}

object! {
    /// A writer of tensors, which plans an output.
    shared TensorWriter: TensorWriterTable, TensorWriterTableRef, TensorWriterCalls, Plugin {
        /// Plans the files of the output. `target_kind`: 0 a file, 1 a folder.
        plan(catalog: CatalogView, target_kind: u32, target_name: Text, layout: LayoutSink, context: Context)
            -> (plan: Given<TensorPlan>);
    } then {
        /// Lists the steps that make this catalog suitable for the output format, in the syntax of
        /// `--step`. The host calls this function before `plan`.
        steps(catalog: CatalogView, steps: NameSink, context: Context);
    }
}

object! {
    /// The plan of a tensor output.
    shared TensorPlan: TensorPlanTable, TensorPlanTableRef, TensorPlanCalls, Plugin {
        /// Writes the bytes of a streamed file to `output`, in order.
        stream(file: u32, catalog: CatalogView, output: ByteSink, context: Context);
        /// Writes the bytes of an encoded segment to `output`, in order. The host encodes many
        /// segments concurrently. The host keeps `note` for `seal`.
        encode(id: u32, catalog: CatalogView, output: ByteSink, note: ByteSink, context: Context);
        /// Supplies the deferred bytes, and the files that are written after all others.
        seal(digests: Digests, output: SealSink, context: Context);
    }
}

object! {
    /// A reader of rows, which opens inputs.
    shared RecordReader: RecordReaderTable, RecordReaderTableRef, RecordReaderCalls, Plugin {
        /// Opens an input. The record set takes ownership of the source.
        open(source: Given<Source>, losses: LossSink, context: Context) -> (set: Given<RecordSet>);
        /// Writes an index of the input, and returns the numbers of records and bytes that the
        /// index covers.
        index(source: Source, output: ByteSink, context: Context) -> (records: u64, bytes: u64);
    }
}

request! {
    /// A part of a row input. The part can be read independently.
    SplitAt: Split, SplitRef, SplitFacts {
        /// The name of the file that contains the split.
        file: Text,
        /// The offset of the split's first byte.
        offset: u64,
        /// The length of the split in bytes.
        bytes: u64,
        /// The number of records in the split, or `UINT64_MAX` if it is unknown.
        records: u64,
    }
}

object! {
    /// Receives splits, in order.
    sink SplitSink: SplitSinkTable, SplitSinkTableRef, SplitSinkCalls, Host {
        /// Adds the next split.
        split(split: SplitAt);
    }
}

request! {
    /// A record that the reader skipped.
    SkippedAt: Skipped, SkippedRef, SkippedFacts {
        /// The name of the file that contains the record.
        file: Text,
        /// The number of the record, or `UINT64_MAX` if it is unknown.
        record: u64,
        /// The offset of the record's first byte.
        offset: u64,
        /// The reason why the reader skipped the record.
        why: Text,
    }
}

object! {
    /// Receives the records that the reader skipped.
    sink SkippedSink: SkippedSinkTable, SkippedSinkTableRef, SkippedSinkCalls, Host {
        /// Adds a skipped record.
        skipped(skipped: SkippedAt);
    }
}

request! {
    /// A request for rows and columns of a split.
    ScanAt: Scan, ScanRef, ScanFacts {
        /// The number of the split.
        split: u32,
        /// Whether only the fields in `columns` are requested.
        is_projected: Flag,
        /// The requested fields, in ascending order. Each field is the length of its path, followed
        /// by the path: the index of a column, then indices within structs.
        columns: Ids,
        /// The first requested row of the split. Rows are counted before any comparison.
        first_row: u64,
        /// The maximum number of rows from `first_row`, or `UINT64_MAX` for all rows.
        limit: u64,
        /// The maximum number of rows in a batch.
        rows: u64,
        /// The approximate size of a batch in bytes.
        bytes: u64,
    }
}

object! {
    /// Comparisons that must all be true for the host to keep a row. A plugin may omit rows for
    /// which a comparison is false. The host checks all rows again.
    shared Predicate: PredicateTable, PredicateTableRef, PredicateCalls, Host {
        /// Returns the number of comparisons.
        count() -> (count: u32);
        /// Returns the path, the comparator and the values of a comparison. The path is encoded as
        /// in `FerryScan`. `comparator`: 0 equal, 1 unequal, 2 less, 3 less or equal, 4 greater, 5
        /// greater or equal, 6 missing, 7 not missing, 8 equal to one of the values. A plugin
        /// ignores a comparison if it does not know the comparator or the values.
        comparison(index: u32, values: NodeSink) -> (column: Ids, comparator: u32);
    }
}

object! {
    /// An open row input.
    shared RecordSet: RecordSetTable, RecordSetTableRef, RecordSetCalls, Plugin {
        /// Returns the schema of the columns.
        schema() -> (schema: ArrowSchema);
        /// Lists the splits, in order.
        splits(splits: SplitSink);
        /// Returns a stream of rows and a ticket for the stream. If the stream reports an error,
        /// `fault` returns the full error for the ticket.
        scan(scan: ScanAt, predicate: Predicate) -> (stream: ArrowArrayStream, ticket: u64);
        /// Fails with the error of the stream to which this ticket belongs. The error is returned
        /// only once.
        fault(ticket: u64);
        /// Writes up to `most` records of a split as JSON lines. Sets `written` to `UINT64_MAX` if
        /// the format does not define its own JSON form.
        json(split: u32, most: u64, output: ByteSink) -> (written: u64);
        /// Lists the records that the reader skipped.
        skipped(skipped: SkippedSink);
        /// Reports content of the input that the columns do not contain.
        losses(losses: LossSink);
    }
}

request! {
    /// A request for a row output.
    OutputAt: RecordOutput, RecordOutputRef, OutputFacts {
        /// The number of rows, or `UINT64_MAX` if it is unknown.
        rows: u64,
        /// The kind of the target: 0 a file, 1 a folder.
        target_kind: u32,
        /// The name of the target file.
        target_name: Text,
    }
}

object! {
    /// A writer of rows, which plans outputs.
    shared RecordWriter: RecordWriterTable, RecordWriterTableRef, RecordWriterCalls, Plugin {
        /// Plans the files of the output.
        plan(schema: Moved<ArrowSchema>, output: OutputAt, losses: LossSink, context: Context)
            -> (plan: Given<RecordPlan>);
    }
}

object! {
    /// The encoded pieces of an output file, in order.
    shared Pieces: PiecesTable, PiecesTableRef, PiecesCalls, Host {
        /// Returns the number of pieces.
        count() -> (count: u64);
        /// Returns the location of a piece, its number of rows, and the note that `encode`
        /// produced.
        piece(index: u64) -> (offset: u64, len: u64, rows: u64, note: Bytes);
    }
}

object! {
    /// The finished files of a row output, in order.
    shared WrittenFiles: WrittenFilesTable, WrittenFilesTableRef, WrittenFilesCalls, Host {
        /// Returns the number of files.
        count() -> (count: u64);
        /// Returns the name of a file, its length in bytes, and its number of pieces.
        file(index: u64) -> (name: Text, bytes: u64, pieces: u64);
        /// Returns a piece of a file. The results are the same as in `FerryPieces`.
        piece(file: u64, index: u64) -> (offset: u64, len: u64, rows: u64, note: Bytes);
    }
}

object! {
    /// The plan of a row output.
    shared RecordPlan: RecordPlanTable, RecordPlanTableRef, RecordPlanCalls, Plugin {
        /// Lists the names of the files. The list is empty if the plan starts new files as needed.
        files(names: NameSink);
        /// Returns the condition for starting the next file. `kind`: 0 the plan never starts a new
        /// file, 1 after `size` rows, 2 before a piece that would make the file longer than `size`
        /// bytes.
        roll() -> (kind: u32, size: u64);
        /// Returns the name of a file if the plan starts new files as needed. The host calls this
        /// function when the number of files is known.
        name(file: u32, count: u32, name: NameSink);
        /// Lists patterns for the names of files from an earlier output, which this output
        /// replaces.
        supersedes(patterns: NameSink);
        /// Returns the number of rows and bytes that are encoded together.
        group() -> (rows: u64, bytes: u64);
        /// Writes the beginning of a file.
        begin(file: u32, output: ByteSink);
        /// Encodes rows as a piece. The host encodes many pieces concurrently, before it assigns
        /// them to files. The host keeps `note` for `finish`.
        encode(batches: Moved<ArrowArrayStream>, output: ByteSink, losses: LossSink, note: ByteSink);
        /// Writes the end of a file.
        finish(file: u32, pieces: Pieces, output: ByteSink);
        /// Lists the names of the files that describe all other files.
        sealed(names: NameSink);
        /// Writes all bytes of one of the `sealed` files. The host calls this function after all
        /// other files are finished.
        seal(sealed: u32, files: WrittenFiles, output: ByteSink);
        /// Lists notes for the user.
        notes(notes: NameSink);
    }
}
