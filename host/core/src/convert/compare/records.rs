//! Comparing records.

use super::{Compared, Differences, Found};
use crate::context::session::Session;
use crate::convert::sides::options_of;
use crate::convert::steps::{on_records, parse};
use crate::read::record_files::FoundInput;
use crate::records::diff::diff;
use crate::records::rows::{self, Rows};
use crate::records::steps::{self, Origin};
use tensorferry_sdk::{Loss, Purpose, Result};

pub(super) fn compare(
    request: &Compared<'_>,
    [a, b]: [FoundInput<'_>; 2],
    session: &Session,
) -> Result<Found> {
    let (a, b) = (open(&a, session)?, open(&b, session)?);
    check(request, &a, &b)?;
    let of_a = on_records(parse(request.steps)?)?;
    let found = std::thread::scope(|scope| {
        let mut a = steps::make(scope, Origin::Rows(&a), &of_a, session)?;
        let mut b = steps::make(scope, Origin::Rows(&b), &[], session)?;
        diff(&mut *a, &mut *b)
    })?;
    let losses = check(request, &a, &b)?;
    a.close()?;
    b.close()?;
    Ok(Found { differences: Differences::Records(found), losses, notes: session.take_notes() })
}

/// What both have lost so far.
fn check(request: &Compared<'_>, a: &Rows<'_>, b: &Rows<'_>) -> Result<Vec<Loss>> {
    let losses = [a.losses()?, b.losses()?].concat();
    request.losses.check(&losses)?;
    Ok(losses)
}

fn open<'r>(found: &FoundInput<'r>, session: &Session) -> Result<Rows<'r>> {
    let options = options_of(&found.format.description, &found.options);
    rows::open(&found.source, found.format, &options, &found.reading(session, Purpose::COMPARE))
}
