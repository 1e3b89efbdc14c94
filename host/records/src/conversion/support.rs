//! The functions on records that `tensorferry-convert` calls.

use crate::conversion::steps::Records;
use crate::conversion::{compare, convert, of_tensors, to_tensors, verify};
use tensorferry_convert::comparison::{CompareRequest, ComparisonResult};
use tensorferry_convert::context::ConversionContext;
use tensorferry_convert::receipt::{RecordsRecord, VerifyResult};
use tensorferry_convert::record_support::RecordSupport;
use tensorferry_convert::report::Report;
use tensorferry_convert::steps::AnyStep;
use tensorferry_core::context::loss::LossRecord;
use tensorferry_core::context::session::Session;
use tensorferry_core::formats::registry::RegisteredFormat;
use tensorferry_core::read::context::ReadContext;
use tensorferry_core::read::input::TensorInput;
use tensorferry_core::read::model::InputModel;
use tensorferry_core::read::record_files::FoundInput;
use tensorferry_core::read::source::FileSource;
use tensorferry_sdk::Result;
use tensorferry_tensors::steps::{Step, TensorAction};

impl RecordSupport for Records {
    fn convert(
        &self,
        context: &ConversionContext<'_>,
        format: &RegisteredFormat,
        steps: Vec<AnyStep>,
    ) -> Result<Report> {
        convert::convert(context, format, steps)
    }

    fn as_model<'a>(
        &self,
        context: &ConversionContext<'a>,
        format: &RegisteredFormat,
        steps: Vec<AnyStep>,
    ) -> Result<(InputModel<'a>, Vec<Step<TensorAction>>)> {
        to_tensors::as_model(context, format, steps)
    }

    fn of_tensors(
        &self,
        context: &ConversionContext<'_>,
        probed: Result<&RegisteredFormat>,
        steps: Vec<AnyStep>,
    ) -> Result<Report> {
        of_tensors::convert(context, probed, steps)
    }

    fn as_tensors(
        &self,
        source: &FileSource,
        format: &RegisteredFormat,
        options: &[(String, String)],
        context: &ReadContext<'_>,
        session: &Session,
    ) -> Result<TensorInput> {
        to_tensors::as_tensors(source, format, options, context, session)
    }

    fn compare(
        &self,
        request: &CompareRequest<'_>,
        found: [FoundInput<'_>; 2],
        session: &Session,
    ) -> Result<ComparisonResult> {
        compare::compare(request, found, session)
    }

    fn verify(
        &self,
        checked: &mut VerifyResult,
        source: &FileSource,
        receipt: (&RecordsRecord, &[LossRecord<'_>]),
        format: &RegisteredFormat,
        told: &[(String, String)],
        session: &Session,
    ) -> Result<()> {
        verify::rows(checked, source, receipt, format, told, session)
    }
}
