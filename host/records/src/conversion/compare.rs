use super::steps::on_records;
use crate::conversion::steps::Records;
use crate::diff::diff;
use crate::rows::{self, Rows};
use crate::steps::{self, Origin};
use tensorferry_convert::comparison::{CompareRequest, ComparisonResult, Differences};
use tensorferry_convert::sides::options_of;
use tensorferry_convert::steps::parse;
use tensorferry_core::context::session::Session;
use tensorferry_core::read::record_files::FoundInput;
use tensorferry_sdk::{Loss, Purpose, Result};

pub(super) fn compare(
    request: &CompareRequest<'_>,
    [a, b]: [FoundInput<'_>; 2],
    session: &Session,
) -> Result<ComparisonResult> {
    let (a, b) = (open(&a, session)?, open(&b, session)?);
    check(request, &a, &b)?;
    let of_a = on_records(parse(request.steps, &Records)?)?;
    let found = std::thread::scope(|scope| {
        let mut a = steps::make(scope, Origin::Rows(&a), &of_a, session)?;
        let mut b = steps::make(scope, Origin::Rows(&b), &[], session)?;
        diff(&mut *a, &mut *b)
    })?;
    let losses = check(request, &a, &b)?;
    a.close()?;
    b.close()?;
    Ok(ComparisonResult { differences: Differences::Records(found), losses, notes: session.take_notes() })
}

/// Returns the losses that the two inputs have reported so far.
fn check(request: &CompareRequest<'_>, a: &Rows<'_>, b: &Rows<'_>) -> Result<Vec<Loss>> {
    let losses = [a.losses()?, b.losses()?].concat();
    request.losses.check(&losses)?;
    Ok(losses)
}

fn open<'r>(found: &FoundInput<'r>, session: &Session) -> Result<Rows<'r>> {
    let options = options_of(&found.format.description, &found.options);
    rows::open(&found.source, found.format, &options, &found.reading(session, Purpose::COMPARE))
}
