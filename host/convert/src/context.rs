//! The context of a conversion: what it is asked to do, and what all of its stages use.
//!
//! The host knows four reader options by name: `dequantize`, which the step of that name sets, and
//! `schema`, `files` and `infer`, with which the files of a dataset are read in groups
//! (`read/file_group.rs` of the core). It applies `files=GLOB` itself for every record format. A
//! format without these options works too; its groups then need the same schema. The host knows one
//! writer option, `shard_tag` (`write/shard_tag.rs`), which it sets where a set may be replaced in
//! a store.

use crate::request::Request;
use crate::sides::with_dequantize;
use crate::watch::Watch;
use crate::write::target::{self, OutputTarget};
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Instant;
use tensorferry_core::context::session::Session;
use tensorferry_core::formats::probe::probe;
use tensorferry_core::formats::registry::{Formats, RegisteredFormat, holds_records};
use tensorferry_core::read::account::InputScope;
use tensorferry_core::read::context::{ReadContext, purpose};
use tensorferry_core::read::model::InputModel;
use tensorferry_core::read::part::Part;
use tensorferry_core::read::rank_folders;
use tensorferry_core::read::record_files::{self, InputChoice};
use tensorferry_core::read::source::FileSource;
use tensorferry_core::read::weights::Weights;
use tensorferry_publish::commit::Recovered;
use tensorferry_sdk::{Capabilities, Description, Dtype, Entry, LossKind, Purpose, Result};
use tensorferry_tensors::steps::cast::CAST;
use tensorferry_tensors::steps::dequantize::{asked, may_hold_codes};
use tensorferry_tensors::steps::model_config::ModelConfig;
use tensorferry_tensors::steps::{ModelFacts, Step, TensorAction};

/// A conversion whose input has been found, and whose output has been decided on.
pub struct ConversionContext<'a> {
    /// What was asked for.
    pub request: &'a Request,
    /// The formats that there are.
    pub registry: &'a Formats,
    /// Threads, memory and limits.
    pub session: &'a Session,
    /// Who is told how far it is.
    pub watch: &'a dyn Watch,
    /// When it began.
    pub started: Instant,
    /// The input's files.
    pub source: FileSource,
    /// What its reader is told.
    pub options: Vec<(String, String)>,
    /// Which part is taken of what it holds.
    pub part: Part,
    /// Which entries the user named.
    pub scope: Option<Arc<InputScope>>,
    /// What is written where.
    pub target: OutputTarget<'a>,
    /// Whether quantised weights become floats: in the dtype in it, or in that which a model's configuration names.
    pub dequantize: Option<Option<Dtype>>,
    /// What dead runs had left where the output goes, over all attempts to write it.
    pub recovered: RefCell<Recovered>,
}

impl<'a> ConversionContext<'a> {
    /// Finds the input's files, and where the output goes in what format.
    pub fn open(
        request: &'a Request,
        registry: &'a Formats,
        session: &'a Session,
        watch: &'a dyn Watch,
        started: Instant,
    ) -> Result<Self> {
        Self::of(request, request.input.open(session)?, registry, session, watch, started)
    }

    /// As [`open`](Self::open), for these files.
    pub fn of(
        request: &'a Request,
        source: FileSource,
        registry: &'a Formats,
        session: &'a Session,
        watch: &'a dyn Watch,
        started: Instant,
    ) -> Result<Self> {
        let output = &request.output;
        let input = OpenInput { request, source: &source, registry, session };
        let target = target::resolve(registry, &output.path, output.format.as_deref(), &input)?;
        let recovered = RefCell::default();
        let (options, part) = (request.input.options.clone(), request.input.part.clone());
        let dequantize = None;
        Ok(Self {
            request,
            registry,
            session,
            watch,
            started,
            source,
            options,
            part,
            scope: None,
            target,
            dequantize,
            recovered,
        })
    }

    /// The format that the input is; of records, the files that are meant become its source.
    pub(crate) fn find_format(&mut self) -> Result<&'a RegisteredFormat> {
        let input = &self.request.input;
        let choice = InputChoice {
            from: input.format.as_deref(),
            options: &self.options,
            part: &self.part,
            losses: Some(&self.request.losses),
        };
        let found = record_files::find_in(self.source.afresh(), choice, self.registry, self.session)?;
        if !holds_records(&found.format.description)
            && !rank_folders::is_alone(&self.options)
            && let Some(sibling) = rank_folders::sibling(&found.source, self.session)?
        {
            return Err(rank_folders::refusal(&found.source.folder().display().to_string(), &sibling));
        }
        self.source = found.source;
        self.options = found.options;
        self.scope = found.scope;
        if found.is_split {
            self.part = Part::Auto;
        }
        Ok(found.format)
    }

    /// What steps may know of a model.
    pub fn facts<'m>(&self, model: &'m InputModel<'_>, steps: &[Step<TensorAction>]) -> Result<ModelFacts<'m>>
    where
        'a: 'm,
    {
        let specs = || steps.iter().map(|step| &step.spec);
        let config = if asked(specs())?.is_some() {
            ModelConfig::read(&model.input.source)?
        } else if specs().any(|spec| spec.name == CAST.name) || may_hold_codes(&model.input.catalog) {
            // What needs numbers refuses codes, and a configuration may say which tensors are codes.
            ModelConfig::read(&model.input.source).unwrap_or_default()
        } else {
            ModelConfig::default()
        };
        Ok(ModelFacts { config, input: &model.input, session: self.session })
    }

    /// The options of a model's reader: those that were given, and with a step that dequantises, the one that asks for it
    /// where the format has quantised types of its own.
    pub fn reader_options(
        &self,
        source: &FileSource,
        format: &Description,
        given: &[(String, String)],
    ) -> Result<Vec<(String, String)>> {
        with_dequantize(self.dequantize, source, format, given)
    }

    /// All files of the folder that the input's lie in.
    pub fn input_folder(&self) -> FileSource {
        self.source.below("")
    }

    /// The same folder for the files that go along: none is taken from where a link leads.
    pub(crate) fn carried_folder(&self) -> FileSource {
        self.source.below("").of_companions()
    }

    /// What an input of this format is read for.
    pub fn purpose(&self, format: &RegisteredFormat) -> Purpose {
        purpose(&format.description, &self.target.format.description)
    }

    /// What the plugins of an input that is read for this purpose are told.
    pub fn reading(&self, purpose: Purpose) -> ReadContext<'a> {
        ReadContext::new(self.session, purpose)
            .with_new_output(self.target.is_new_folder(self.session))
            .with_scope(self.scope.clone())
            .allowing_unreadable(Some(self.allows_unreadable()))
    }

    /// Whether entries of the input that cannot be read are losses that the user allowed.
    pub fn allows_unreadable(&self) -> bool {
        self.request.losses.allows(LossKind::Input)
    }
}

/// An input before it is read.
struct OpenInput<'a> {
    request: &'a Request,
    source: &'a FileSource,
    registry: &'a Formats,
    session: &'a Session,
}

impl target::Input for OpenInput<'_> {
    fn entry(&self) -> &Entry {
        self.request.input.entry(self.source)
    }

    fn has_any_name(&self) -> bool {
        // An input that nobody knows is refused when it is read.
        let format = probe(self.registry, self.source, self.request.input.format.as_deref(), self.session);
        format.is_ok_and(|format| format.description.capabilities.has(Capabilities::PREFIX))
    }

    fn is_weights_alone(&self) -> bool {
        Weights::of(self.registry).is_ok_and(|weights| weights.are_alone_in(self.source))
    }
}
