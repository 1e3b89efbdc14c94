//! Tests that the conformance suite detects formats that break its rules, and accepts a format that
//! follows them.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU8, Ordering};
use tensorferry_sdk::conformance::{ConformanceReport, Observer, Sample, check, examine};
use tensorferry_sdk::{
    ByteSink, Capabilities, CatalogSink, CatalogView, Context, Description, Dtype, Encoded, EncodedId, Error,
    Format, LayoutSink, Loss, LossKind, NothingEncoded, NothingToSeal, Options, Result, Role, Score, Source,
    Storage, Target, TensorDecoder, TensorPart, TensorPlan, TensorReader, TensorWriter,
};

/// The rule that the test format breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    BadId,
    UndeclaredWriter,
    DeniesItsFiles,
    ProbeFails,
    PanicsWhenCut,
    BelievesLengths,
    LosesTheCut,
    DropsTensors,
    SwallowsLimits,
    BlamesItself,
    ForgetsNames,
    ForgetsMetadata,
    WritesTheTime,
    OffByOne,
    ForgetsState,
    EncodesOtherwise,
}

/// A format with the layout `n: u8, n bytes`. A file contains one U8 tensor named `bytes`.
#[derive(Clone, Copy)]
struct Counted(Fault);

impl Format for Counted {
    fn describe(&self) -> Description {
        let write = match self.0 {
            Fault::UndeclaredWriter => Capabilities::READ,
            Fault::ForgetsMetadata => Capabilities::WRITE | Capabilities::METADATA,
            Fault::ForgetsState => Capabilities::WRITE | Capabilities::TREE,
            _ => Capabilities::WRITE,
        };
        Description::new(if self.0 == Fault::BadId { "Counted" } else { "counted" }, "counted bytes")
            .suffixes([".counted"])
            .capabilities(Capabilities::READ | write)
    }

    fn probe(&self, source: &dyn Source, context: &dyn Context) -> Result<Option<Score>> {
        match self.0 {
            Fault::DeniesItsFiles => Ok(Some(Score::NO)),
            Fault::ProbeFails => {
                let file = source.open(source.entry().name())?;
                source.read_vec(file, 0, 4, context.limits()).map(|_| None)
            }
            _ => Ok(None),
        }
    }

    fn reader(&self, _options: &Options) -> Result<Box<dyn TensorReader>> {
        Ok(Box::new(*self))
    }

    fn writer(&self, _options: &Options) -> Result<Box<dyn TensorWriter>> {
        Ok(Box::new(*self))
    }
}

impl TensorReader for Counted {
    fn read(
        &self,
        source: &dyn Source,
        catalog: &mut dyn CatalogSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorDecoder>> {
        let nothing = Ok(Box::new(NothingEncoded) as _);
        let file = source.open(source.entry().name())?;
        let mut count = [0];
        match source.read_at(file, 0, &mut count) {
            Err(_) if self.0 == Fault::LosesTheCut => return nothing,
            Err(_) if self.0 == Fault::BlamesItself => return Err(Error::plugin("no count")),
            result if self.0 == Fault::PanicsWhenCut => result.unwrap(),
            result => result?,
        }
        let len = u64::from(count[0]);
        if self.0 == Fault::BelievesLengths {
            // The result is ignored, because only the length of the buffer matters.
            let _ = source.read_at(file, 1, &mut vec![0; usize::from(count[0]) << 16]);
        }
        source.read_vec(file, 0, 1, context.limits())?;
        if self.0 == Fault::DropsTensors {
            return nothing;
        }
        let storage = catalog.storage(Storage::file(file, u64::from(self.0 != Fault::OffByOne), len))?;
        let added = catalog.tensor("bytes", Dtype::U8, &[len], storage, 0);
        if self.0 == Fault::SwallowsLimits { nothing } else { added.and(nothing) }
    }
}

impl TensorWriter for Counted {
    fn plan(
        &self,
        catalog: &dyn CatalogView,
        target: &Target,
        layout: &mut dyn LayoutSink,
        _: &dyn Context,
    ) -> Result<Box<dyn TensorPlan>> {
        let fits = |id: &_| {
            let tensor = catalog.tensor(*id);
            tensor.dtype == Dtype::U8 && tensor.shape.len() == 1 && tensor.bytes < 256
        };
        let chosen = catalog.tensor_ids().find(fits);
        for id in catalog.tensor_ids().filter(|id| Some(*id) != chosen) {
            layout.omit(id, "the format holds only one row of U8")?;
        }
        let id = chosen.ok_or_else(|| Error::unsupported("no row of U8"))?;
        let tensor = catalog.tensor(id);
        if tensor.name != "bytes" && self.0 != Fault::ForgetsNames {
            layout.loss(Loss::new(LossKind::Name, tensor.name, "the format has no names"))?;
        }
        let path = match target {
            Target::File(path) => path,
            Target::Folder => "a.counted",
        };
        let file = layout.file(path, Role::Data)?;
        layout.bytes(file, &[u8::try_from(tensor.bytes).unwrap()])?;
        if self.0 == Fault::EncodesOtherwise {
            layout.encoded(file, Encoded::tensors([id]))?;
            return Ok(Box::new(Fickle(AtomicU8::new(0))));
        }
        layout.tensor(file, TensorPart::whole(id))?;
        if self.0 == Fault::WritesTheTime {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
            layout.bytes(file, &now.as_nanos().to_le_bytes())?;
        }
        Ok(Box::new(NothingToSeal))
    }
}

/// A plan that encodes the tensor correctly the first time, and differently every time after that.
struct Fickle(AtomicU8);

impl TensorPlan for Fickle {
    fn encode(
        &self,
        _: EncodedId,
        catalog: &dyn CatalogView,
        output: &mut dyn ByteSink,
        _: &dyn Context,
    ) -> Result<Vec<u8>> {
        let id = catalog.tensor_ids().find(|&id| catalog.tensor(id).dtype == Dtype::U8).unwrap();
        let mut bytes = vec![0; usize::try_from(catalog.tensor(id).bytes).unwrap()];
        catalog.read(id, 0, &mut bytes)?;
        let requested = self.0.fetch_add(1, Ordering::Relaxed);
        bytes.iter_mut().for_each(|byte| *byte = byte.wrapping_add(requested));
        output.write(&bytes)?;
        Ok(Vec::new())
    }
}

fn sample() -> Sample {
    Sample::file("a.counted", [3, 1, 2, 3]).holding(&["bytes"])
}

fn run(fault: Fault) -> ConformanceReport {
    check(&Counted(fault), &[sample()])
}

#[test]
fn a_sound_format_passes() {
    let report = run(Fault::None);
    // The 4-byte file is truncated at each byte, and each byte is changed in two ways.
    assert_eq!(report.damaged, 12);
    assert!(report.written > 4, "{report:?}");
    assert!(report.refused.iter().all(|refusal| refusal.ends_with("no row of U8")), "{report:?}");
}

#[test]
fn each_fault_is_caught_under_its_rule() {
    let rules = [
        (Fault::BadId, "an id consists of lowercase"),
        (Fault::UndeclaredWriter, "every side of a format is declared"),
        (Fault::DeniesItsFiles, "a format recognizes its own files"),
        (Fault::ProbeFails, "probing fails only with I/O errors"),
        (Fault::PanicsWhenCut, "a format never panics"),
        (Fault::BelievesLengths, "no buffer is longer than its file"),
        (Fault::LosesTheCut, "never loses tensors silently"),
        (Fault::DropsTensors, "no tensor is dropped silently"),
        (Fault::SwallowsLimits, "a limit never drops content silently"),
        (Fault::BlamesItself, "a damaged input never causes a plugin"),
        (Fault::ForgetsNames, "a tensor is written, or its loss or the loss of its name is reported"),
        (Fault::ForgetsMetadata, "metadata is kept, or its loss is reported"),
        (Fault::ForgetsState, "the tree is kept, or its loss is reported"),
        (Fault::WritesTheTime, "the same catalog gives the same files"),
        (Fault::EncodesOtherwise, "a segment is encoded to the same bytes each time"),
        (Fault::OffByOne, "a tensor keeps its dtype, shape and bytes"),
    ];
    for (fault, rule) in rules {
        let payload = catch_unwind(AssertUnwindSafe(|| run(fault))).err();
        let message = payload.as_ref().and_then(|p| p.downcast_ref::<String>());
        let message = message.unwrap_or_else(|| panic!("{fault:?} passes"));
        assert!(message.contains(rule), "{fault:?}: {message}");
        let examination = examine(&Counted(fault), &[sample()], &Silent);
        let broken = examination.verdicts.iter().find(|verdict| verdict.rule.contains(rule)).unwrap();
        assert!(!broken.violations.is_empty() && broken.checks > 0, "{fault:?}: {broken:?}");
        assert!(!examination.is_conformant());
    }
}

struct Silent;

impl Observer for Silent {}

#[test]
fn a_rule_that_is_broken_does_not_hide_the_others() {
    let good = examine(&Counted(Fault::None), &[sample()], &Silent);
    assert!(good.is_conformant(), "{:?}", good.verdicts);
    assert_eq!(good.report, run(Fault::None));
    assert!(good.verdicts.len() > 30, "{}", good.verdicts.len());
    let numbered = good.verdicts.iter().all(|verdict| verdict.number != "-");
    assert!(numbered, "conformance/rules.md does not list a rule: {:?}", good.verdicts);
    let damaged = examine(&Counted(Fault::PanicsWhenCut), &[sample()], &Silent);
    let broken: Vec<_> = damaged.verdicts.iter().filter(|verdict| !verdict.violations.is_empty()).collect();
    assert_eq!(broken.len(), 1, "{broken:?}");
    assert_eq!((broken[0].number, broken[0].rule), ("B3", "a format never panics"));
    // The violation includes the truncated file that reproduces it.
    let shown = broken[0].violations[0].input.as_ref().unwrap();
    assert_ne!(shown.files(), sample().files());
    assert_eq!(damaged.report.written, good.report.written);
}
