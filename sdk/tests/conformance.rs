//! The conformance suite catches formats that break its rules, and passes one that does not.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use tensorferry_sdk::conformance::{Report, Sample, check};
use tensorferry_sdk::{
    Capabilities, CatalogSink, CatalogView, Context, Description, Dtype, Error, Format, LayoutSink, Loss, LossKind,
    NothingToSeal, Options, Result, Role, Score, Source, Storage, Target, TensorPart, TensorPlan, TensorReader,
    TensorWriter,
};

/// How a format is bad.
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
    ShufflesBytes,
}

/// `n: u8, n bytes`: one tensor of U8, called `bytes`.
#[derive(Clone, Copy)]
struct Counted(Fault);

impl Format for Counted {
    fn describe(&self) -> Description {
        let write = if self.0 == Fault::UndeclaredWriter { Capabilities::READ } else { Capabilities::WRITE };
        Description {
            id: if self.0 == Fault::BadId { "Counted" } else { "counted" }.to_owned(),
            title: "counted bytes".to_owned(),
            suffixes: vec![".counted".to_owned()],
            capabilities: Capabilities::READ.and(write),
            ..Description::default()
        }
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
    fn read(&self, source: &dyn Source, catalog: &mut dyn CatalogSink, context: &dyn Context) -> Result<()> {
        let file = source.open(source.entry().name())?;
        let mut count = [0];
        match source.read_at(file, 0, &mut count) {
            Err(_) if self.0 == Fault::LosesTheCut => return Ok(()),
            Err(_) if self.0 == Fault::BlamesItself => return Err(Error::plugin("no count")),
            result if self.0 == Fault::PanicsWhenCut => result.unwrap(),
            result => result?,
        }
        let len = u64::from(count[0]);
        if self.0 == Fault::BelievesLengths {
            source.read_at(file, 1, &mut vec![0; usize::from(count[0]) << 16])?;
        }
        source.read_vec(file, 0, 1, context.limits())?;
        if self.0 == Fault::DropsTensors {
            return Ok(());
        }
        let storage = catalog.storage(Storage::file(file, 1, len))?;
        let added = catalog.tensor("bytes", Dtype::U8, &[len], storage, 0).map(drop);
        if self.0 == Fault::SwallowsLimits { Ok(()) } else { added }
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
            layout.omit(id, "not one row of U8")?;
        }
        let id = chosen.ok_or_else(|| Error::unsupported("no row of U8"))?;
        let tensor = catalog.tensor(id);
        if tensor.name != "bytes" && self.0 != Fault::ForgetsNames {
            layout.loss(Loss::new(LossKind::Name, tensor.name, "there are no names"))?;
        }
        if !catalog.metadata().is_empty() && self.0 != Fault::ForgetsMetadata {
            layout.loss(Loss::new(LossKind::Metadata, "all", "there is none"))?;
        }
        let path = match target {
            Target::File(path) => path,
            Target::Folder => "a.counted",
        };
        let file = layout.file(path, Role::Data)?;
        layout.bytes(file, &[u8::try_from(tensor.bytes).unwrap()])?;
        if self.0 == Fault::ShufflesBytes {
            layout.omit(id, "written in another way")?;
            return Ok(Box::new(NothingToSeal));
        }
        layout.tensor(file, TensorPart::whole(id))?;
        if self.0 == Fault::WritesTheTime {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
            layout.bytes(file, &now.as_nanos().to_le_bytes())?;
        }
        Ok(Box::new(NothingToSeal))
    }
}
