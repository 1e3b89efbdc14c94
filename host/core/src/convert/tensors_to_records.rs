//! A conversion of tensors to records: models that have been read become a flow, and that is written.

use crate::bridge::columns::{Columns, KEY};
use crate::bridge::each::EachTensor;
use crate::bridge::rows::EachRow;
use crate::bridge::steps::{Divided, Each};
use crate::context::session::Session;
use crate::convert::Request;
use crate::convert::records::{Destined, Flows};
use crate::convert::report::Report;
use crate::convert::sidecars;
use crate::convert::watch::Watch;
use crate::formats::registry::Registry;
use crate::formats::used::UsedFormat;
use crate::read::identity::FileIdentity;
use crate::read::model::Model;
use crate::read::source::FileSource;
use crate::records::flow::Flow;
use crate::records::steps::{self, Beginning, Origin};
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
    pub divided: &'a Divided<Each>,
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
    let kept = catalog.metadata().get(KEY).map(|text| Columns::parse(text)).unwrap_or_default();
    // It is what the columns are made by.
    lost.retain(|loss| !(loss.kind == LossKind::Metadata && loss.what == KEY));
    notes.iter().for_each(|note| session.note(note));
    let stored = Stored::new(&model.input, &catalog, session, target.spill());
    let logical = Logical::new(&catalog, &stored);
    lost.extend(of_ties(&logical));
    let made = match divided.crossing {
        Each::Row => {
            let rows = EachRow::new(&logical, &kept)?;
            (Some(rows.records()), Box::new(rows) as Box<dyn Beginning + '_>)
        }
        Each::Tensor => {
            let tensors = EachTensor::new(&logical)?;
            (Some(tensors.records()), Box::new(tensors) as Box<dyn Beginning + '_>)
        }
    };
    let one = std::slice::from_ref(&model);
    let sidecars = sidecars::find(folder, one, &request.carry, registry, target, &[])?;
    lost.extend(sidecars.losses().iter().cloned());
    let why = "an output of records takes no other files along";
    lost.extend(sidecars.names().map(|name| Loss::new(LossKind::Sidecar, name, why)));
    sidecars.notes().iter().for_each(|note| session.note(note));
    let bytes = catalog.tensors().iter().map(|tensor| tensor.bytes).sum();
    let through =
        Through { model: &model, made: &*made.1, rows: made.0, steps: &divided.records, lost, session };
    let recovered = RefCell::default();
    let destined =
        Destined { target, request, registry, context: &model.context, session, recovered: &recovered };
    let report = destined.write(&through, bytes, watch, started)?;
    drop(through);
    drop(made);
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
struct Through<'a> {
    model: &'a Model<'a>,
    made: &'a dyn Beginning,
    rows: Option<u64>,
    steps: &'a [crate::steps::Step],
    lost: Vec<Loss>,
    session: &'a Session,
}

impl Flows for Through<'_> {
    fn flow(&self, body: &mut dyn FnMut(&mut dyn Flow) -> Result<()>) -> Result<()> {
        std::thread::scope(|scope| {
            body(&mut *steps::make(scope, Origin::Made(self.made), self.steps, self.session)?)
        })
    }

    fn readers(&self) -> Vec<UsedFormat> {
        vec![UsedFormat::of(&self.model.input.format)]
    }

    fn rows(&self) -> Option<u64> {
        steps::count(self.steps, self.rows)
    }

    fn losses(&self) -> Result<Vec<Loss>> {
        Ok(self.lost.clone())
    }

    fn files(&self) -> Vec<(PathBuf, FileIdentity)> {
        self.model.files()
    }

    fn source(&self) -> &FileSource {
        &self.model.input.source
    }

    fn check_unchanged(&self) -> Result<()> {
        self.model.input.source.check_unchanged()
    }
}
