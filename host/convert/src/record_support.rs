//! The interface for conversions of records. The crate `tensorferry-records` implements it. A
//! program that supports only tensors therefore does not link Arrow.

use crate::comparison::{CompareRequest, ComparisonResult};
use crate::context::ConversionContext;
use crate::receipt::{RecordsRecord, VerifyResult};
use crate::report::Report;
use crate::steps::{AnyStep, OtherSide, OtherSteps};
use tensorferry_core::context::loss::LossRecord;
use tensorferry_core::context::session::Session;
use tensorferry_core::formats::registry::RegisteredFormat;
use tensorferry_core::read::context::ReadContext;
use tensorferry_core::read::input::TensorInput;
use tensorferry_core::read::model::InputModel;
use tensorferry_core::read::record_files::FoundInput;
use tensorferry_core::read::source::FileSource;
use tensorferry_sdk::{Error, Result};
use tensorferry_tensors::steps::signature::Signature;
use tensorferry_tensors::steps::spec::Spec;
use tensorferry_tensors::steps::{Step, TensorAction};

/// The conversions that read or write records.
pub trait RecordSupport: OtherSteps + Sync {
    /// Converts the input's records into an output of records. `format` is the input's format. If
    /// the conversion fails, no partial output is left behind.
    fn convert(
        &self,
        context: &ConversionContext<'_>,
        format: &RegisteredFormat,
        steps: Vec<AnyStep>,
    ) -> Result<Report>;

    /// Reads an input of records as a model of tensors. Also returns the steps that must be applied
    /// to these tensors.
    fn as_model<'a>(
        &self,
        context: &ConversionContext<'a>,
        format: &RegisteredFormat,
        steps: Vec<AnyStep>,
    ) -> Result<(InputModel<'a>, Vec<Step<TensorAction>>)>;

    /// Converts the tensors of the input into an output of records. `probed` is the input's format,
    /// or the reason why no format was found.
    fn of_tensors(
        &self,
        context: &ConversionContext<'_>,
        probed: Result<&RegisteredFormat>,
        steps: Vec<AnyStep>,
    ) -> Result<Report>;

    /// Reads an input of records as tensors, to inspect them.
    fn as_tensors(
        &self,
        source: &FileSource,
        format: &RegisteredFormat,
        options: &[(String, String)],
        context: &ReadContext<'_>,
        session: &Session,
    ) -> Result<TensorInput>;

    fn compare(
        &self,
        request: &CompareRequest<'_>,
        found: [FoundInput<'_>; 2],
        session: &Session,
    ) -> Result<ComparisonResult>;

    /// Reads an output's records back, file by file, and adds differences from the receipt to
    /// `checked`. `told` contains the options that the output was written with.
    fn verify(
        &self,
        checked: &mut VerifyResult,
        source: &FileSource,
        receipt: (&RecordsRecord, &[LossRecord<'_>]),
        format: &RegisteredFormat,
        told: &[(String, String)],
        session: &Session,
    ) -> Result<()>;
}

/// An implementation that returns an error for all records, for programs that support only tensors.
#[derive(Debug, Clone, Copy)]
pub struct NoRecords;

impl NoRecords {
    fn error() -> Error {
        Error::unsupported("this program was built without support for records")
    }
}

impl OtherSteps for NoRecords {
    fn signatures(&self) -> Vec<&'static Signature> {
        Vec::new()
    }

    fn side(&self, _: &Spec) -> Option<Result<OtherSide>> {
        None
    }
}

impl RecordSupport for NoRecords {
    fn convert(&self, _: &ConversionContext<'_>, _: &RegisteredFormat, _: Vec<AnyStep>) -> Result<Report> {
        Err(Self::error())
    }

    fn as_model<'a>(
        &self,
        _: &ConversionContext<'a>,
        _: &RegisteredFormat,
        _: Vec<AnyStep>,
    ) -> Result<(InputModel<'a>, Vec<Step<TensorAction>>)> {
        Err(Self::error())
    }

    fn of_tensors(
        &self,
        _: &ConversionContext<'_>,
        probed: Result<&RegisteredFormat>,
        _: Vec<AnyStep>,
    ) -> Result<Report> {
        probed.and_then(|_| Err(Self::error()))
    }

    fn as_tensors(
        &self,
        _: &FileSource,
        _: &RegisteredFormat,
        _: &[(String, String)],
        _: &ReadContext<'_>,
        _: &Session,
    ) -> Result<TensorInput> {
        Err(Self::error())
    }

    fn compare(
        &self,
        _: &CompareRequest<'_>,
        _: [FoundInput<'_>; 2],
        _: &Session,
    ) -> Result<ComparisonResult> {
        Err(Self::error())
    }

    fn verify(
        &self,
        _: &mut VerifyResult,
        _: &FileSource,
        _: (&RecordsRecord, &[LossRecord<'_>]),
        _: &RegisteredFormat,
        _: &[(String, String)],
        _: &Session,
    ) -> Result<()> {
        Err(Self::error())
    }
}
