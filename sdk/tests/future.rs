//! Tests plugins and hosts from a later revision, which use numbers, bits and words that this side
//! does not know. This side must refuse or ignore unknown values, and must never treat them as
//! known values.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::atomic::{AtomicBool, Ordering};
use tensorferry_abi::{
    Borrowed, CatalogSinkTable, ContextCalls, ContextTable, DescriptionTable, DtypeFacts, Failure,
    FormatCalls, FormatTable, IdentityFacts, LossFacts, NameSinkTable, NodeFacts, OptionFacts, Owned, Pair,
    RecordReaderTable, RecordWriterTable, SourceCalls, SourceTable, StorageFacts, TensorDecoderCalls,
    TensorDecoderTable, TensorFacts, TensorReaderCalls, TensorReaderTable, TensorWriterTable, UNKNOWN, class,
    offered_by,
};
use tensorferry_sdk::export::{Exported, Root};
use tensorferry_sdk::memory::MemoryView;
use tensorferry_sdk::mirror::RemoteFormat;
use tensorferry_sdk::{
    Capabilities, Context, Description, DtypeInfo, ErrorKind, Format, Limits, LossKind, MemoryContext,
    MemorySource, OptionKind, Purpose, Result, Score, Severity, Source,
};

/// A number that this revision does not use.
const LATER: u32 = 4711;

/// The kind of unknown value that the plugin sends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unknown {
    Nothing,
    OptionSide,
    StorageKind,
    ByteOrder,
    TensorKind,
    Digest,
    Node,
    Loss,
    Dtype,
    ErrorClass,
    NumbersDtype,
}

#[derive(Clone, Copy)]
struct Later(Unknown);

fn refused<T>(what: &str) -> std::result::Result<T, Failure> {
    Err(Failure::new(class::UNSUPPORTED, what))
}

impl FormatCalls for Later {
    fn describe(&self, description: Borrowed<'_, DescriptionTable>) -> std::result::Result<(), Failure> {
        description.identity(IdentityFacts {
            id: "later",
            title: "",
            capabilities: 1 | 1 << 63,
            output_revision: 0,
        })?;
        description.attribute("from-the-future", "something")?;
        let side = if self.0 == Unknown::OptionSide { LATER } else { 0 };
        let option = OptionFacts { side, key: "k", kind: LATER, choices: &[], defaults: &[], help: "h" };
        description.option(option)
    }

    fn probe(
        &self,
        _: Borrowed<'_, SourceTable>,
        context: Borrowed<'_, ContextTable>,
    ) -> std::result::Result<i64, Failure> {
        context.log(LATER, "a line")?;
        Ok(i64::MIN)
    }

    fn tensor_reader(&self, _: &[Pair<'_>]) -> std::result::Result<Owned<TensorReaderTable>, Failure> {
        Ok(Owned::give(*self))
    }

    fn tensor_writer(&self, _: &[Pair<'_>]) -> std::result::Result<Owned<TensorWriterTable>, Failure> {
        refused("no writer")
    }

    fn record_reader(&self, _: &[Pair<'_>]) -> std::result::Result<Owned<RecordReaderTable>, Failure> {
        refused("no rows")
    }

    fn record_writer(&self, _: &[Pair<'_>]) -> std::result::Result<Owned<RecordWriterTable>, Failure> {
        refused("no rows")
    }
}

impl TensorReaderCalls for Later {
    fn read(
        &self,
        _source: Borrowed<'_, SourceTable>,
        catalog: Borrowed<'_, CatalogSinkTable>,
        _context: Borrowed<'_, ContextTable>,
    ) -> std::result::Result<Owned<TensorDecoderTable>, Failure> {
        let or_later = |says, usual| if self.0 == says { LATER } else { usual };
        let inline = 2;
        for digest in [b"abcd", b"efgh"] {
            catalog.storage(StorageFacts {
                kind: or_later(Unknown::StorageKind, inline),
                byte_order: or_later(Unknown::ByteOrder, 0),
                file: 0,
                offset: 0,
                len: 4,
                handle: 0,
                bytes: &[1, 2, 3, 4],
                ranges: &[],
                digest_algorithm: or_later(Unknown::Digest, 0),
                digest,
            })?;
        }
        let name = if self.0 == Unknown::Dtype { "F32_OF_LATER" } else { "F32" };
        let dtype = DtypeFacts { name, block_elements: 1, block_bytes: 4, swap_unit: 4 };
        let dtype = catalog.dtype(dtype)?;
        let kind = or_later(Unknown::TensorKind, 0);
        let tensor = TensorFacts {
            name: "t",
            dtype,
            shape: &[],
            kind,
            storage: 0,
            offset: 0,
            blocks: &[],
            tile: &[],
            order: 0,
            edges: 0,
            tiles: &[],
            tile_count: 0,
            fill: u32::MAX,
        };
        catalog.tensor(tensor)?;
        if self.0 == Unknown::NumbersDtype {
            let numbers = NodeFacts { kind: 15, class_name: "F4_OF_LATER", bytes: &[1, 2], children: &[] };
            let value = catalog.value(numbers)?;
            catalog.metadata("numbers", value)?;
        }
        let node = NodeFacts { kind: or_later(Unknown::Node, 1), class_name: "", bytes: &[], children: &[] };
        let node = catalog.node(node)?;
        catalog.root(node)?;
        if self.0 == Unknown::Loss {
            catalog.loss(LossFacts { kind: "soul", severity: LATER, asked: true, what: "w", why: "y" })?;
        }
        if self.0 == Unknown::ErrorClass {
            return Err(Failure::new(99, "an error of a later revision"));
        }
        Ok(Owned::give(*self))
    }
}

impl TensorDecoderCalls for Later {
    fn decode(
        &self,
        _: Borrowed<'_, SourceTable>,
        _: u64,
        _: Borrowed<'_, tensorferry_abi::ByteSinkTable>,
        _: Borrowed<'_, ContextTable>,
    ) -> std::result::Result<(), Failure> {
        refused("nothing is encoded")
    }
}

fn format(says: Unknown) -> Result<RemoteFormat> {
    RemoteFormat::new("later", Owned::<FormatTable>::give(Later(says)))
}

/// Reads an input with a plugin that sends the given kind of unknown value, and returns the
/// catalog.
fn read(says: Unknown) -> Result<tensorferry_sdk::Catalog> {
    let (source, context) = (MemorySource::file("a", *b"x"), MemoryContext::default());
    MemoryView::read(&format(says).unwrap(), &[], &source, &context).map(|view| view.catalog().clone())
}

#[test]
fn what_a_later_plugin_describes_is_kept_or_passed_over() {
    let description = format(Unknown::Nothing).unwrap().describe();
    assert!(
        description.capabilities.has(Capabilities::READ)
            && !description.capabilities.has(Capabilities::WRITE)
    );
    assert_eq!(description.options[0].kind, OptionKind::Text);
    assert_eq!(description.attributes, [("from-the-future".to_owned(), "something".to_owned())]);
    // A probe result below the range of valid scores counts as a missing score.
    let (source, context) = (MemorySource::file("a", *b"x"), MemoryContext::default());
    assert_eq!(format(Unknown::Nothing).unwrap().probe(&source, &context), Ok(None));
    assert_eq!(context.notes(), ["a line"]);
    assert_eq!(format(Unknown::OptionSide).err().unwrap().kind(), ErrorKind::Unsupported);
}

#[test]
fn numbers_that_say_how_bytes_lie_are_unsupported() {
    for (says, what) in [
        (Unknown::StorageKind, "kind of storage"),
        (Unknown::ByteOrder, "byte order"),
        (Unknown::TensorKind, "kind of tensor"),
    ] {
        let error = read(says).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains(what) && error.to_string().contains("4711"), "{error}");
    }
    let error = read(Unknown::NumbersDtype).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("F4_OF_LATER"), "{error}");
}

#[test]
fn a_digest_that_is_not_known_is_left_unchecked_with_one_note() {
    let catalog = read(Unknown::Digest).unwrap();
    assert!(catalog.storages().iter().all(|storage| storage.digest.is_none()));
    let [note] = catalog.losses() else { panic!("{:?}", catalog.losses()) };
    assert_eq!((note.severity, &*note.what), (Severity::Note, "digest algorithm 4711"));
}

#[test]
fn losses_nodes_dtypes_and_errors_of_later_stay_what_they_are() {
    let catalog = read(Unknown::Loss).unwrap();
    let [loss] = catalog.losses() else { panic!("{:?}", catalog.losses()) };
    assert_eq!((loss.kind, loss.severity, loss.requested), (LossKind::State, Severity::Lost, true));
    assert_eq!(read(Unknown::Node).unwrap().tree().nodes()[0].kind.0, LATER);
    let catalog = read(Unknown::Dtype).unwrap();
    assert_eq!(catalog.dtype_info(catalog.tensors()[0].dtype).unwrap().name(), "F32_OF_LATER");
    assert_eq!(read(Unknown::ErrorClass).unwrap_err().kind(), ErrorKind::Plugin);
}

/// A plugin that declares a dtype must keep working with a later SDK in which the dtype is built
/// in.
#[test]
fn an_extension_dtype_that_is_built_in_by_then_is_the_built_in_one() {
    let info = DtypeInfo::extension("F8_E8M0", 1, 1, 1).unwrap();
    let (source, context) = (MemorySource::file("a", *b"x"), MemoryContext::default());
    let view = MemoryView::build("a", &source, &context, |catalog| {
        assert_eq!(catalog.dtype(&info)?, tensorferry_sdk::Dtype::F8_E8M0);
        Ok(())
    });
    assert!(view.unwrap().catalog().tensors().is_empty());
    assert_eq!(DtypeInfo::extension("F8_E8M0", 1, 2, 1).unwrap_err().kind(), ErrorKind::Usage);
}

#[test]
fn a_purpose_is_told_by_the_bits_that_are_known() {
    let later = Purpose(Purpose::FLAT.0 | 1 << 31);
    assert!(later.has(Purpose::FLAT) && !later.has(Purpose::SHOW));
    assert!(!Purpose(1 << 31).has(Purpose::SHOW));
}

/// A host from a later revision that does not know the length of a file. The length may also become
/// unknown after the first request.
struct LaterHost {
    knows_lengths: bool,
    asked: AtomicBool,
}

impl SourceCalls for LaterHost {
    fn entry(&self) -> std::result::Result<(u32, &str), Failure> {
        Ok((0, "a"))
    }

    fn open(&self, _name: &str) -> std::result::Result<u32, Failure> {
        Ok(0)
    }

    fn exists(&self, _name: &str) -> std::result::Result<bool, Failure> {
        Ok(true)
    }

    fn list(&self, _: &str, _: Borrowed<'_, NameSinkTable>) -> std::result::Result<(), Failure> {
        Ok(())
    }

    fn folders(&self, _: &str, _: Borrowed<'_, NameSinkTable>) -> std::result::Result<(), Failure> {
        Ok(())
    }

    fn info(&self, _file: u32) -> std::result::Result<(u64, &str), Failure> {
        if !self.knows_lengths {
            return Ok((UNKNOWN, "a"));
        }
        if self.asked.swap(true, Ordering::Relaxed) {
            let mut failure = Failure::new(class::TRANSIENT, "the server is gone");
            failure.details.push(("file".to_owned(), "a".to_owned()));
            return Err(failure);
        }
        Ok((4, "a"))
    }

    fn read_at(&self, _: u32, _: u64, _: &mut [u8]) -> std::result::Result<(), Failure> {
        Ok(())
    }

    fn read_ranges(&self, _: &[u64], _: &mut [u8]) -> std::result::Result<(), Failure> {
        Ok(())
    }

    fn advise(&self, _: &[u64]) -> std::result::Result<(), Failure> {
        Ok(())
    }
}

impl ContextCalls for LaterHost {
    fn limit(&self, _name: &str) -> std::result::Result<u64, Failure> {
        Ok(UNKNOWN)
    }

    fn cancelled(&self) -> std::result::Result<bool, Failure> {
        Ok(false)
    }

    fn log(&self, _level: u32, _message: &str) -> std::result::Result<(), Failure> {
        Ok(())
    }

    fn progress(&self, _done: u64, _total: u64) -> std::result::Result<(), Failure> {
        Ok(())
    }

    fn purpose(&self) -> std::result::Result<u32, Failure> {
        Ok(1 << 31)
    }

    fn threads(&self) -> std::result::Result<u32, Failure> {
        Ok(1)
    }

    fn open(&self, _path: &str) -> std::result::Result<Owned<SourceTable>, Failure> {
        refused("no other inputs")
    }

    fn attribute(&self, _name: &str) -> std::result::Result<u64, Failure> {
        Ok(UNKNOWN)
    }

    fn input_folder(&self) -> std::result::Result<Owned<SourceTable>, Failure> {
        refused("no folder")
    }
}

/// A plugin that requests the length of a file through a method that cannot fail.
struct AsksLength;

impl Exported for AsksLength {
    fn formats() -> Result<Vec<Box<dyn Format>>> {
        Ok(vec![Box::new(AsksLength)])
    }
}

impl Format for AsksLength {
    fn describe(&self) -> Description {
        Description::new("looks", "Looks").capabilities(Capabilities::READ)
    }

    fn probe(&self, source: &dyn Source, context: &dyn Context) -> Result<Option<Score>> {
        assert_eq!(context.limits().memory_bytes, Limits::default().memory_bytes);
        let file = source.open("a")?;
        Ok((source.len(file) == 4).then_some(Score::CERTAIN))
    }
}

#[test]
fn what_a_later_host_does_not_know_or_fails_with_arrives_as_what_it_is() {
    let formats = offered_by::<Root<AsksLength>>().unwrap();
    let probe = |knows_lengths| {
        let host = LaterHost { knows_lengths, asked: AtomicBool::new(false) };
        let probed = formats[0].probe(Borrowed::shared(&host), Borrowed::shared(&host));
        probed.unwrap_err()
    };
    let unknown = probe(false);
    assert_eq!(unknown.class(), class::UNSUPPORTED, "{unknown:?}");
    assert!(unknown.message.contains("length is not known"), "{unknown:?}");
    let gone = probe(true);
    assert_eq!((gone.class(), &*gone.message), (class::TRANSIENT, "the server is gone"));
    assert_eq!(gone.details, [("file".to_owned(), "a".to_owned())]);
}
