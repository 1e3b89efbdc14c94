//! Tests the boundary inside one process. Formats are exported through the root function of a
//! library, and are wrapped as the host would wrap them.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::{Arc, Once};
use tensorferry_abi::offered_by;
use tensorferry_sdk::export::{Exported, Root};
use tensorferry_sdk::memory::{self, MemoryView};
use tensorferry_sdk::mirror::RemoteFormat;
use tensorferry_sdk::{
    ByteOrder, ByteSink, Capabilities, CatalogSink, CatalogView, Context, Data, DeferredId, Description,
    Digest, DigestId, Digests, Dtype, DtypeInfo, Edges, Encoded, EncodedId, EncodedLocation, Error,
    ErrorKind, FileRange, Format, Grid, LayoutSink, Level, Limits, Loss, LossKind, MemoryContext,
    MemorySource, Node, NothingToSeal, OptionKind, OptionSpec, Options, Order, OutputId, Region, Result,
    Role, Score, SealSink, Severity, Side, Source, Storage, StorageRange, Target, TensorDecoder, TensorId,
    TensorPart, TensorPlan, TensorReader, TensorWriter, Tiles, Value,
};

/// A format whose behavior depends on the name of the entry.
struct Lent;

impl Exported for Lent {
    fn formats() -> Result<Vec<Box<dyn Format>>> {
        Ok(vec![Box::new(Lent)])
    }
}

/// A library that cannot start.
struct Unable;

impl Exported for Unable {
    fn formats() -> Result<Vec<Box<dyn Format>>> {
        panic!("no formats today")
    }
}

fn description() -> Description {
    Description::new("lent-1", "Lent")
        .suffixes([".lent", ".l"])
        .magic(7, vec![0, 255])
        .members(["*.lent"])
        .capabilities(Capabilities::READ | Capabilities::WRITE | Capabilities::TIES)
        .options([
            OptionSpec::reader("mode", OptionKind::Text, None, "what to do"),
            OptionSpec::writer("max", OptionKind::Size, Some("5GB"), "a size"),
            OptionSpec::writer(
                "how",
                OptionKind::Choice(vec!["a".to_owned(), "b".to_owned()]),
                Some("a"),
                "a word",
            ),
            OptionSpec::writer("on", OptionKind::Bool, Some("true"), "a switch"),
            OptionSpec::writer("n", OptionKind::Integer, Some("3"), "a number"),
            OptionSpec::writer("mode", OptionKind::Text, None, "what to do"),
            OptionSpec::writer("steps", OptionKind::List, None, "steps to request"),
        ])
        .output_revision(9)
}

impl Format for Lent {
    fn describe(&self) -> Description {
        description()
    }

    fn probe(&self, source: &dyn Source, context: &dyn Context) -> Result<Option<Score>> {
        assert_eq!(context.limits().tensors, 77);
        let file = source.open(source.entry().name())?;
        Ok((source.len(file) > 0).then_some(Score::LIKELY))
    }

    fn reader(&self, options: &Options) -> Result<Box<dyn TensorReader>> {
        Ok(Box::new(Doing(options.text("mode").unwrap_or("").to_owned())))
    }

    fn writer(&self, options: &Options) -> Result<Box<dyn TensorWriter>> {
        assert_eq!(options.size("max"), Some(5_000_000_000));
        let steps: Vec<&str> = options.texts("steps").collect();
        let doing =
            if steps.is_empty() { options.text("mode").unwrap_or("").to_owned() } else { steps.join(" ") };
        Ok(Box::new(Doing(doing)))
    }
}

/// A reader, decoder, writer or plan with the requested behavior.
#[derive(Clone)]
struct Doing(String);

impl Doing {
    fn panics_in(&self, entry: &str) {
        assert!(self.0 != format!("panic in {entry}"), "on request");
    }
}

impl Drop for Doing {
    fn drop(&mut self) {
        self.panics_in("drop");
    }
}

const KINDS: [ErrorKind; 9] = [
    ErrorKind::Malformed,
    ErrorKind::Unsupported,
    ErrorKind::Limit,
    ErrorKind::Io,
    ErrorKind::Transient,
    ErrorKind::Plugin,
    ErrorKind::Usage,
    ErrorKind::Verification,
    ErrorKind::Cancelled,
];

fn detailed(kind: ErrorKind) -> Error {
    Error::new(kind, "a message\nof two lines")
        .file("dir/a \"file\"")
        .tensor("")
        .offset(u64::MAX)
        .expected("one")
        .found("\u{1f980}")
}

impl TensorReader for Doing {
    fn read(
        &self,
        source: &dyn Source,
        catalog: &mut dyn CatalogSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorDecoder>> {
        self.panics_in("read");
        if let Some(kind) = KINDS.into_iter().find(|kind| self.0 == kind.word()) {
            return Err(detailed(kind));
        }
        context.note("reading");
        for level in [Level::Error, Level::Warning, Level::Detail] {
            context.log(level, "by level");
        }
        context.progress(3, 8);
        let file = source.open(source.entry().name())?;
        if self.0 == "past the end" {
            source.read_at(file, 3, &mut [0; 8])?;
        }
        let range = |offset, len| FileRange { file, offset, len };
        let mut both = [0; 3];
        source.advise(&[range(0, 8)]);
        source.read_ranges(&[range(7, 1), range(0, 2)], &mut both)?;
        assert_eq!(both, [4, 0, 1]);
        let own = catalog.dtype(&DtypeInfo::extension("LENT_2", 4, 2, 1)?)?;
        let storage = catalog.storage(Storage::file(file, 0, 8).byte_order(ByteOrder::Big))?;
        let here = catalog.storage(Storage::inline(*b"abcd").digest(Digest::crc32c(0x92c8_0a31)))?;
        let encoded = catalog.storage(Storage::encoded(5, 4))?;
        let first = catalog.tensor("a", Dtype::I16, &[2, 2], storage, 0)?;
        catalog.tensor("b", Dtype::I16, &[2, 2], storage, 0)?;
        catalog.tensor("c", own, &[8], here, 0)?;
        catalog.tensor("d", Dtype::U8, &[4], encoded, 0)?;
        let part = |storage, offset, len| StorageRange { storage, offset, len };
        let joined = catalog.storage(Storage::joined([part(here, 2, 2), part(encoded, 0, 1)]))?;
        catalog.tensor("e", Dtype::U8, &[3], joined, 0)?;
        if self.0 == "tiles" {
            let fill = catalog.storage(Storage::inline([9]))?;
            let grid = |edges, order, tiles, fill| Grid { tile: vec![2, 2], order, edges, tiles, fill };
            let tiles = Tiles::Listed(vec![Some(encoded), None, Some(joined), None]);
            let absent = grid(Edges::Clipped, Order::Fortran, tiles, Some(fill));
            catalog.tensor_of_tiles("f", Dtype::U8, &[3, 3], absent)?;
            let padded = grid(Edges::Padded, Order::C, Tiles::Consecutive { first: here, count: 2 }, None);
            catalog.tensor_of_tiles("g", Dtype::U8, &[4, 1], padded)?;
        }
        if self.0 == "twice" {
            catalog.tensor("a", Dtype::U8, &[], storage, 0)?;
        }
        catalog.metadata_text("key", "value")?;
        let numbers = Value::numbers(Dtype::U16, *b"abcd")?;
        let list = Value::list([Value::number(Dtype::I64, &[7; 8])?, numbers, Value::bool(true)])?;
        catalog.metadata("typed", Value::map([(Value::text("list"), list.clone())])?)?;
        catalog.attribute(first, "of a", list)?;
        catalog.attribute(first, "text", Value::text("b"))?;
        let tensor = catalog.node(Node::tensor(first))?;
        let key = catalog.node(Node::text("a"))?;
        let root = catalog.node(Node::map("Class", &[(key, tensor)]))?;
        catalog.root(root)?;
        for severity in Severity::ALL {
            catalog.loss(
                Loss::new(LossKind::Graph, "graph", "is not read").severity(severity).requested_by_user(),
            )?;
        }
        if self.0 == "steps" {
            catalog.step("rename:a,to=b")?;
            catalog.step("transpose")?;
            catalog.sidecar("config.json", b"{}")?;
        }
        if self.0 == "sidecar" {
            catalog.sidecar("../config.json", b"{}")?;
        }
        catalog.origin("elsewhere")?;
        catalog.global("os.system")?;
        Ok(Box::new(self.clone()))
    }
}

impl TensorDecoder for Doing {
    fn decode(&self, _: &dyn Source, handle: u64, output: &mut dyn ByteSink, _: &dyn Context) -> Result<()> {
        self.panics_in("decode");
        (0..4).try_for_each(|byte| output.write(&[byte + u8::try_from(handle).unwrap()]))
    }
}

impl TensorWriter for Doing {
    fn plan(
        &self,
        catalog: &dyn CatalogView,
        target: &Target,
        layout: &mut dyn LayoutSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorPlan>> {
        self.panics_in("plan");
        assert_eq!(*target, Target::File("out".to_owned()));
        if self.0 == "tiles" {
            let count = |id| catalog.all_blocks(id, context.limits()).map(|blocks| blocks.len());
            let counts = catalog.tensor_ids().map(count).collect::<Result<Vec<usize>>>()?;
            context.note(&format!("{:?} {counts:?}", catalog.blocks(TensorId(5), 1, 2)?));
            return Err(Error::unsupported("this mode does not write"));
        }
        let file = layout.file("out", Role::Data)?;
        let seen = format!("{:?} {:?}", catalog.metadata(), catalog.attributes(TensorId(0))?);
        assert_eq!(
            seen,
            r#"[("key", "value"), ("typed", {"list":[506381209866536711,[25185,25699],true]})] [("of a", [506381209866536711,[25185,25699],true]), ("text", "b")]"#
        );
        for id in catalog.tensor_ids() {
            let first = catalog.tied_to(id);
            if catalog.tensor(id).name == "d" {
                // The length of the first segment is not known before encoding.
                let (one, start) = layout.encoded(file, Encoded::region(id, region(0, 1)))?;
                let (other, end) = layout.encoded(file, Encoded::region(id, region(1, 3)).of_len(5))?;
                assert_eq!((one, start, other, end), (EncodedId(0), 12, EncodedId(1), 13));
            } else if first == id {
                layout.tensor(file, TensorPart { byte_order: ByteOrder::Big, ..TensorPart::whole(id) })?;
            } else {
                layout.alias(id, first)?;
            }
        }
        layout.pad(file, 2)?;
        layout.digest(file, 0..23, tensorferry_sdk::DigestAlgorithm::CRC32C)?;
        layout.deferred(file, 4)?;
        layout.late_file("late", Role::Index)?;
        layout.streamed_file("streamed", Role::Data, &[])?;
        if self.0 == "no seal" { Ok(Box::new(NothingToSeal)) } else { Ok(Box::new(self.clone())) }
    }

    fn steps(&self, catalog: &dyn CatalogView, context: &dyn Context) -> Result<Vec<String>> {
        let Some(folder) = context.input_folder()? else { return Ok(Vec::new()) };
        let len = folder.len(folder.open("config.json")?);
        Ok(vec![self.0.clone(), format!("{} {len}", catalog.tensor(TensorId(0)).name)])
    }
}

impl TensorPlan for Doing {
    fn stream(
        &self,
        file: OutputId,
        catalog: &dyn CatalogView,
        output: &mut dyn ByteSink,
        _context: &dyn Context,
    ) -> Result<()> {
        self.panics_in("stream");
        assert_eq!(file, OutputId(2));
        let mut bytes = [0; 4];
        catalog.read(TensorId(3), 0, &mut bytes)?;
        output.write(&bytes)
    }

    fn encode(
        &self,
        id: EncodedId,
        catalog: &dyn CatalogView,
        output: &mut dyn ByteSink,
        context: &dyn Context,
    ) -> Result<Vec<u8>> {
        self.panics_in("encode");
        context.check_cancelled()?;
        let d = TensorId(3);
        let read = |start, len: u64| {
            let part = TensorPart { region: Some(region(start, len)), ..TensorPart::whole(d) };
            let mut bytes = vec![0; usize::try_from(len).unwrap()];
            catalog.read_region(&part, &mut bytes).map(|()| bytes)
        };
        if self.0 == "past the region" {
            read(2, 3)?;
        }
        if id == EncodedId(0) {
            output.write(&read(0, 1)?.repeat(3))?;
            return Ok(b"note".to_vec());
        }
        output.write(&read(1, 3)?)?;
        output.write(if self.0 == "too short" { b"." } else { b".." })?;
        Ok(Vec::new())
    }

    fn seal(&self, digests: &dyn Digests, output: &mut dyn SealSink, _context: &dyn Context) -> Result<()> {
        self.panics_in("seal");
        let place = EncodedLocation { offset: 12, len: 3, note: b"note".to_vec() };
        assert_eq!(digests.encoded(EncodedId(0))?, place);
        assert_eq!(digests.encoded(EncodedId(1))?, EncodedLocation { offset: 15, len: 5, note: Vec::new() });
        output.deferred(DeferredId(0), &digests.crc(DigestId(0))?.to_le_bytes())?;
        output.late(OutputId(1), &digests.file_len(OutputId(0))?.to_le_bytes())
    }
}

/// Creates a region of a one-dimensional tensor.
fn region(start: u64, len: u64) -> Region {
    Region { origin: vec![start], shape: vec![len] }
}

/// Exports and wraps the format, and restores the panic hook that a library silences.
fn remote() -> RemoteFormat {
    static LOUD: Once = Once::new();
    let formats = offered_by::<Root<Lent>>().unwrap();
    LOUD.call_once(|| drop(std::panic::take_hook()));
    RemoteFormat::new("lender", formats.into_iter().next().unwrap()).unwrap()
}

fn mode(doing: &str) -> Vec<(String, String)> {
    vec![("mode".to_owned(), doing.to_owned())]
}

fn source() -> MemorySource {
    MemorySource::file("in", *b"\0\x01\0\x02\0\x03\0\x04")
}

fn read_error(doing: &str) -> Error {
    let (source, context) = (source(), MemoryContext::default());
    MemoryView::read(&remote(), &mode(doing), &source, &context).err().unwrap()
}

#[test]
fn a_description_and_a_score_cross() {
    let format = remote();
    assert_eq!(format.describe(), description());
    let mut limits = Limits::default();
    limits.tensors = 77;
    let context = MemoryContext::new(limits);
    assert_eq!(format.probe(&source(), &context).unwrap(), Some(Score::LIKELY));
    assert_eq!(format.probe(&MemorySource::file("in", []), &context).unwrap(), None);
}

#[test]
fn steps_and_files_that_go_along_cross() {
    let (source, context) = (source(), MemoryContext::default());
    let through = remote();
    let view = MemoryView::read(&through, &mode("steps"), &source, &context).unwrap();
    assert_eq!(view.catalog().steps(), ["rename:a,to=b", "transpose"]);
    assert_eq!(view.catalog().sidecars()["config.json"], b"{}");
    assert!(read_error("sidecar").to_string().contains("not a plain file name"));
    let given = memory::pairs(&[("steps", "one"), ("steps", "two")]);
    let options = Options::check(&description().options, Side::Writer, &given).unwrap();
    let writer = through.writer(&options).unwrap();
    assert!(writer.steps(&view, &context).unwrap().is_empty());
    let mut of_folder = MemoryContext::default();
    of_folder.input_folder = Some(Arc::new(MemorySource::folder([("config.json", *b"{} ")])));
    assert_eq!(writer.steps(&view, &of_folder).unwrap(), ["one two", "a 3"]);
}

#[test]
fn a_catalog_and_a_layout_are_the_same_on_both_sides() {
    let (source, context) = (source(), MemoryContext::default());
    let through = remote();
    let near = MemoryView::read(&Lent, &[], &source, &context).unwrap();
    let far = MemoryView::read(&through, &[], &source, &context).unwrap();
    assert_eq!(context.notes(), ["reading", "reading"]);
    let said = |level, text: &str| (level, text.to_owned());
    let [error, warning, detail] = [Level::Error, Level::Warning, Level::Detail].map(|l| said(l, "by level"));
    let once = [said(Level::Note, "reading"), error, warning, detail];
    assert_eq!(context.logged(), [once.clone(), once].concat());
    assert_eq!(context.last_progress(), Some((3, 8)));
    let (one, other) = (near.catalog(), far.catalog());
    assert_eq!(one.tensors(), other.tensors());
    assert_eq!(one.storages(), other.storages());
    assert_eq!(one.metadata(), other.metadata());
    assert_eq!(one.tree(), other.tree());
    assert_eq!(one.losses(), other.losses());
    assert_eq!((one.origin(), one.globals()), (other.origin(), other.globals()));
    assert_eq!(far.tensor_named("e").unwrap().2, b"cd\x05");
    for name in ["a", "b", "c", "d", "e"] {
        assert_eq!(near.tensor_named(name).unwrap(), far.tensor_named(name).unwrap());
    }
    let target = Target::File("out".to_owned());
    let near = memory::write(&Lent, &[], &near, &target, &context).unwrap();
    let far = memory::write(&through, &[], &far, &target, &context).unwrap();
    assert_eq!(near.files, far.files);
    assert_eq!(near.layout.files(), far.layout.files());
    assert_eq!(far.files["streamed"], [5, 6, 7, 8]);
    assert_eq!(far.files["late"], 29_u64.to_le_bytes());
    assert_eq!(far.files["out"][12..25], *b"\x05\x05\x05\x06\x07\x08..cd\x05\0\0");
    assert_eq!(near.layout.encoded(), far.layout.encoded());
    drop(through.faults().check());
}

#[test]
fn a_grid_and_its_blocks_are_the_same_on_both_sides() {
    let (source, context, through) = (source(), MemoryContext::default(), remote());
    let near = MemoryView::read(&Lent, &mode("tiles"), &source, &context).unwrap();
    let far = MemoryView::read(&through, &mode("tiles"), &source, &context).unwrap();
    assert_eq!(near.catalog().tensors(), far.catalog().tensors());
    assert!(matches!(&far.catalog().tensors()[5].data, Data::Grid(grid) if grid.fill.is_some()));
    for (name, bytes) in [("f", &[5, 7, 9, 6, 8, 9, b'c', b'd', 9] as &[u8]), ("g", b"ac\x05\x07")] {
        assert_eq!(near.tensor_named(name).unwrap().2, far.tensor_named(name).unwrap().2);
        assert_eq!(far.tensor_named(name).unwrap().2, bytes, "{name}");
    }
    let target = Target::File("out".to_owned());
    for format in [&Lent as &dyn Format, &through] {
        drop(memory::write(format, &mode("tiles"), &far, &target, &context).unwrap_err());
    }
    let notes = context.notes();
    let [.., near, far] = &*notes else { unreachable!() };
    assert_eq!(near, far);
    assert_eq!(far.matches("Block {").count(), 2, "{far}");
    assert!(far.ends_with("[1, 1, 1, 1, 1, 4, 2]"), "{far}");
}

#[test]
fn an_error_keeps_its_kind_its_message_and_every_detail() {
    for kind in KINDS {
        let (sent, got) = (detailed(kind), read_error(kind.word()));
        assert_eq!(got.kind(), kind);
        assert!(got.details().eq(sent.details()), "{got}");
        if kind == ErrorKind::Plugin {
            assert_eq!(got.message(), format!("plugin lender: {}", sent.message()));
        } else {
            assert_eq!(got, sent);
        }
    }
}

#[test]
fn an_error_names_its_format_if_the_library_has_several() {
    let (source, context, format) = (source(), MemoryContext::default(), remote());
    format.faults().name_format("mirror");
    let error = MemoryView::read(&format, &mode("panic in read"), &source, &context).err().unwrap();
    let start = "plugin lender, format mirror: panicked in TensorReader.read";
    assert!(error.message().starts_with(start), "{error}");
}

#[test]
fn what_the_host_refuses_comes_back_as_it_was_said() {
    let twice = read_error("twice");
    assert_eq!((twice.kind(), twice.message()), (ErrorKind::Malformed, "two tensors have the same name"));
    assert!(twice.details().eq([("tensor", "a".to_owned())]));
    let past = read_error("past the end");
    assert_eq!(
        past.to_string(),
        source().read_at(tensorferry_sdk::FileId(0), 3, &mut [0; 8]).unwrap_err().to_string()
    );
}

#[test]
fn an_encoded_segment_that_lies_or_looks_past_its_tensor_is_refused() {
    let (source, context) = (source(), MemoryContext::default());
    let format = remote();
    let view = MemoryView::read(&format, &[], &source, &context).unwrap();
    let target = Target::File("out".to_owned());
    let refused = |doing| memory::write(&format, &mode(doing), &view, &target, &context).unwrap_err();
    let short = refused("too short");
    assert_eq!(short.kind(), ErrorKind::Plugin);
    assert!(short.message().contains("encoded segment 1 has a different length"), "{short}");
    let details = [("file", "out"), ("expected", "5"), ("found", "4")];
    assert!(short.details().eq(details.map(|(key, value)| (key, value.to_owned()))), "{short}");
    let past = refused("past the region");
    assert_eq!(past.kind(), ErrorKind::Plugin);
    assert!(past.message().contains("outside its tensor"), "{past}");
}

#[test]
fn a_panic_is_a_plugin_error_that_names_its_entry_point() {
    let (source, context) = (source(), MemoryContext::default());
    let named = |error: &Error, entry: &str| {
        assert_eq!(error.kind(), ErrorKind::Plugin);
        let start = format!("plugin lender: panicked in {entry}: on request");
        assert!(error.message().starts_with(&start), "{error}");
    };
    named(&read_error("panic in read"), "TensorReader.read");
    let format = remote();
    let view = MemoryView::read(&format, &mode("panic in decode"), &source, &context).unwrap();
    named(&view.tensor_named("d").unwrap_err(), "TensorDecoder.decode");

    let view = MemoryView::read(&format, &[], &source, &context).unwrap();
    for (doing, entry) in [
        ("plan", "TensorWriter.plan"),
        ("stream", "TensorPlan.stream"),
        ("encode", "TensorPlan.encode"),
        ("seal", "TensorPlan.seal"),
    ] {
        let given = mode(&format!("panic in {doing}"));
        let target = Target::File("out".to_owned());
        named(&memory::write(&format, &given, &view, &target, &context).unwrap_err(), entry);
    }
    format.faults().check().unwrap();
}

#[test]
fn a_panic_in_a_destructor_is_kept_until_the_host_asks() {
    let (source, context) = (source(), MemoryContext::default());
    let format = remote();
    drop(MemoryView::read(&format, &mode("panic in drop"), &source, &context).unwrap());
    let fault = format.faults().check().unwrap_err();
    assert_eq!(fault.kind(), ErrorKind::Plugin);
    assert!(fault.message().starts_with("plugin lender: panicked in drop: on request"), "{fault}");
    format.faults().check().unwrap();
}

#[test]
fn a_library_that_panics_as_it_starts_is_an_error() {
    let error = offered_by::<Root<Unable>>().err().unwrap();
    assert!(error.message.starts_with("panicked in init: no formats today"), "{}", error.message);
}
