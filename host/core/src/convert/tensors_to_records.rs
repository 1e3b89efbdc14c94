//! A conversion of tensors to records: models that have been read become a flow, and that is written.

use crate::bridge::column_metadata::{ColumnsMetadata, KEY};
use crate::bridge::crossing::RecordOf;
use crate::bridge::row_records::RowRecords;
use crate::bridge::tensor_records::TensorRecords;
use crate::context::session::Session;
use crate::convert::Request;
use crate::convert::models::Model;
use crate::convert::records::{Destined, Flows};
use crate::convert::report::Report;
use crate::convert::sidecars;
use crate::convert::steps::divide::CrossingSteps;
use crate::convert::watch::{Used, Watch};
use crate::formats::registry::Registry;
use crate::publish::commit::Identity;
use crate::read::source::FileSource;
use crate::records::flow::Flow;
use crate::records::steps::{self, FlowSource, Origin, RecordAction};
use crate::steps::Step;
use crate::steps::adapt::{Selected, select};
use crate::tensors::logical::Logical;
use crate::tensors::stored::Stored;
use crate::write::target::Resolved;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::Instant;
use tensorferry_sdk::{CatalogView, Context, Error, Loss, LossKind, Result, TensorId};

/// What a conversion of tensors to records is about.
pub struct Asked<'a> {
    /// What the user asked for.
    pub request: &'a Request,
    /// The steps, and what becomes a record.
    pub divided: &'a CrossingSteps<RecordOf>,
    /// The input's folder.
    pub folder: &'a Path,
    /// What is written where.
    pub target: &'a Resolved<'a>,
}

/// Converts tensors to records. `watch` is told how many bytes there are to read, before the first one moves,
/// and asked before the output becomes visible.
///
/// # Errors
/// Whatever is wrong; nothing of the output is left then.
pub fn convert(
    mut models: Vec<Model<'_>>,
    asked: &Asked<'_>,
    registry: &Registry,
    session: &Session,
    watch: &dyn Watch,
    started: Instant,
) -> Result<Report> {
    let Asked { request, divided, folder, target } = asked;
    let model = match (models.pop(), models.last()) {
        (Some(model), None) => model,
        (Some(model), Some(other)) => {
            return Err(Error::usage("records are made of one model: name its folder")
                .found(format!("one in {:?}, one in {:?}", other.folder, model.folder)));
        }
        (None, _) => return Err(Error::plugin("an input that holds no model")),
    };
    let description = &target.format.description;
    let Selected { catalog, losses: mut lost, notes } =
        select(&model.input.catalog, &request.part, &divided.tensors, description)?;
    let kept = catalog.metadata().get(KEY).map(|text| ColumnsMetadata::parse(text)).unwrap_or_default();
    // It is what the columns are made by.
    lost.retain(|loss| !(loss.kind == LossKind::Metadata && loss.what == KEY));
    notes.iter().for_each(|note| session.note(note));
    let stored = Stored::new(&model.input, &catalog, session, target.spill());
    let logical = Logical::new(&catalog, &stored);
    lost.extend(of_ties(&logical));
    let (records, flow): (u64, Box<dyn FlowSource + '_>) = match divided.crossing {
        RecordOf::Row => {
            let rows = RowRecords::new(&logical, &kept)?;
            (rows.records(), Box::new(rows))
        }
        RecordOf::Tensor => {
            let tensors = TensorRecords::new(&logical)?;
            (tensors.records(), Box::new(tensors))
        }
    };
    let one = std::slice::from_ref(&model);
    let sidecars = sidecars::find(folder, one, &request.carry, registry, target, &[])?;
    lost.extend(sidecars.losses().iter().cloned());
    let why = "an output of records takes no other files along";
    lost.extend(sidecars.names().map(|name| Loss::new(LossKind::Sidecar, name, why)));
    sidecars.notes().iter().for_each(|note| session.note(note));
    let bytes = catalog.tensors().iter().map(|tensor| tensor.bytes).sum();
    let through = TensorFlow { model: &model, flow: &*flow, records, steps: &divided.records, lost, session };
    let recovered = RefCell::default();
    let destined =
        Destined { target, request, registry, context: &model.context, session, recovered: &recovered };
    let report = destined.write(&through, bytes, watch, started)?;
    drop(through);
    drop(flow);
    drop(logical);
    drop(stored);
    model.close()?;
    Ok(report)
}

/// Tensors that are one are several columns, or records, without a word of it.
fn of_ties(logical: &Logical<'_>) -> Vec<Loss> {
    let tied = |id: TensorId| {
        let first = logical.tied_to(id);
        let why = || format!("tied to {:?} and written again", logical.tensor(first).name);
        (first != id).then(|| Loss::new(LossKind::Alias, logical.tensor(id).name, why()))
    };
    logical.tensor_ids().filter_map(tied).collect()
}

/// What tensors have become, through steps on records.
struct TensorFlow<'a> {
    model: &'a Model<'a>,
    flow: &'a dyn FlowSource,
    records: u64,
    steps: &'a [Step<RecordAction>],
    lost: Vec<Loss>,
    session: &'a Session,
}

impl Flows for TensorFlow<'_> {
    fn flow(&self, body: &mut dyn FnMut(&mut dyn Flow) -> Result<()>) -> Result<()> {
        std::thread::scope(|scope| {
            body(&mut *steps::make(scope, Origin::Other(self.flow), self.steps, self.session)?)
        })
    }

    fn readers(&self) -> Vec<Used> {
        vec![Used::of(self.model.input.format)]
    }

    fn rows(&self) -> Option<u64> {
        steps::count(self.steps, Some(self.records))
    }

    fn losses(&self) -> Vec<Loss> {
        self.lost.clone()
    }

    fn files(&self) -> Vec<(PathBuf, Identity)> {
        self.model.files()
    }

    fn source(&self) -> &FileSource {
        &self.model.input.source
    }

    fn check_unchanged(&self) -> Result<()> {
        self.model.input.source.check_unchanged()
    }
}
