//! The context of a conversion: the request, and the values that all stages use.

use crate::observer::ConversionObserver;
use crate::request::Request;
use crate::sides::with_dequantize;
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
use tensorferry_core::read::weights::WeightNames;
use tensorferry_publish::commit::Recovered;
use tensorferry_sdk::{Capabilities, Description, Dtype, Entry, LossKind, Purpose, Result};
use tensorferry_tensors::steps::cast::CAST;
use tensorferry_tensors::steps::dequantize::{may_hold_codes, requested_dtype};
use tensorferry_tensors::steps::model_config::ModelConfig;
use tensorferry_tensors::steps::{ModelFacts, Step, TensorAction};

/// A conversion whose input has been found and whose output format and location are known.
pub struct ConversionContext<'a> {
    pub request: &'a Request,
    pub registry: &'a Formats,
    pub session: &'a Session,
    pub observer: &'a dyn ConversionObserver,
    pub started: Instant,
    pub source: FileSource,
    /// The options for the input's reader.
    pub options: Vec<(String, String)>,
    pub part: Part,
    /// The entries of the input that the user named.
    pub scope: Option<Arc<InputScope>>,
    pub target: OutputTarget<'a>,
    /// Whether quantized weights are decoded to floats. `Some(Some(dtype))` decodes to this dtype,
    /// and `Some(None)` decodes to the dtype in the model's configuration.
    pub dequantize: Option<Option<Dtype>>,
    /// Stages of interrupted runs that were found at the output's location, collected over all
    /// attempts to write the output.
    pub recovered: RefCell<Recovered>,
}

impl<'a> ConversionContext<'a> {
    pub fn open(
        request: &'a Request,
        registry: &'a Formats,
        session: &'a Session,
        observer: &'a dyn ConversionObserver,
        started: Instant,
    ) -> Result<Self> {
        Self::of(request, request.input.open(session)?, registry, session, observer, started)
    }

    /// Returns the context of a conversion whose input files are already open, as
    /// [`open`](Self::open) does for a path.
    pub fn of(
        request: &'a Request,
        source: FileSource,
        registry: &'a Formats,
        session: &'a Session,
        observer: &'a dyn ConversionObserver,
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
            observer,
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

    /// Probes the input's format. For records, also narrows the source to the files of the dataset.
    pub(crate) fn find_format(&mut self) -> Result<&'a RegisteredFormat> {
        let input = &self.request.input;
        let choice = InputChoice {
            from: input.format.as_deref(),
            options: &self.options,
            part: &self.part,
            losses: Some(&self.request.losses),
        };
        let found = record_files::find_in(self.source.reopen(), choice, self.registry, self.session)?;
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

    /// Collects the data about a model that steps may use in addition to its tensors.
    pub fn facts<'m>(&self, model: &'m InputModel<'_>, steps: &[Step<TensorAction>]) -> Result<ModelFacts<'m>>
    where
        'a: 'm,
    {
        let specs = || steps.iter().map(|step| &step.spec);
        let config = if requested_dtype(specs())?.is_some() {
            ModelConfig::read(&model.input.source)?
        } else if specs().any(|spec| spec.name == CAST.name) || may_hold_codes(&model.input.catalog) {
            // The configuration may mark tensors as codes, and steps that need numbers reject these
            // tensors. An unreadable configuration counts as empty.
            ModelConfig::read(&model.input.source).unwrap_or_default()
        } else {
            ModelConfig::default()
        };
        Ok(ModelFacts { config, input: &model.input, session: self.session })
    }

    /// Returns the options of a model's reader. These are the given options and, if a step
    /// dequantizes, the option that makes the reader decode the format's own quantized types.
    pub fn reader_options(
        &self,
        source: &FileSource,
        format: &Description,
        given: &[(String, String)],
    ) -> Result<Vec<(String, String)>> {
        with_dequantize(self.dequantize, source, format, given)
    }

    /// Returns all files of the input's folder.
    pub fn input_folder(&self) -> FileSource {
        self.source.in_folder("")
    }

    /// Returns the input's folder as the source of the files that are copied to the output. Links
    /// that lead out of the folder are not followed.
    pub(crate) fn carried_folder(&self) -> FileSource {
        self.source.in_folder("").of_companions()
    }

    pub fn purpose(&self, format: &RegisteredFormat) -> Purpose {
        purpose(&format.description, &self.target.format.description)
    }

    /// Returns the context that the input's plugins receive when they read for this purpose.
    pub fn reading(&self, purpose: Purpose) -> ReadContext<'a> {
        ReadContext::new(self.session, purpose)
            .with_new_output(self.target.is_new_folder(self.session))
            .with_scope(self.scope.clone())
            .allowing_unreadable(Some(self.allows_unreadable()))
    }

    /// Returns whether the user allowed unreadable entries. Allowed unreadable entries count as
    /// losses.
    pub fn allows_unreadable(&self) -> bool {
        self.request.losses.allows(LossKind::Input)
    }
}

/// An input that has not been read yet.
struct OpenInput<'a> {
    request: &'a Request,
    source: &'a FileSource,
    registry: &'a Formats,
    session: &'a Session,
}

impl target::TargetInput for OpenInput<'_> {
    fn entry(&self) -> &Entry {
        self.request.input.entry(self.source)
    }

    fn has_any_name(&self) -> bool {
        // If the format is unknown, the error is reported later, when the input is read.
        let format = probe(self.registry, self.source, self.request.input.format.as_deref(), self.session);
        format.is_ok_and(|format| format.description.capabilities.has(Capabilities::PREFIX))
    }

    fn is_weights_alone(&self) -> bool {
        WeightNames::of(self.registry).is_ok_and(|weights| weights.are_alone_in(self.source))
    }
}
