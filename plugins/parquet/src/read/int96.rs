//! An INT96 value contains a time of day in nanoseconds and a Julian day. Spark, Hive and Impala
//! write timestamps in this form. The `parquet` crate converts INT96 with wrapping arithmetic, so
//! ferry checks each value first.

use tensorferry_sdk::arrow_schema::TimeUnit;
use tensorferry_sdk::{Error, Result};

/// The Julian day of 1970-01-01.
const EPOCH_DAY: i128 = 2_440_588;
const SECONDS_PER_DAY: i128 = 86_400;
const NANOSECONDS_PER_SECOND: i128 = 1_000_000_000;

/// Units of the timestamps that are read from the INT96 leaves of a file.
#[derive(Debug, Clone, Default)]
pub(super) struct Int96Units {
    /// One entry per leaf column of the file. The entry is `None` if the leaf is not INT96.
    pub(super) units: Vec<Option<TimeUnit>>,
    /// Whether the user chose the unit. If the user did, values may be truncated to this unit.
    pub(super) is_chosen: bool,
}

impl Int96Units {
    /// Checks the values of a page. They must be in plain encoding.
    pub(super) fn check(&self, leaf: usize, values: &[u8]) -> Result<()> {
        let Some(unit) = self.units.get(leaf).copied().flatten() else { return Ok(()) };
        let a_second = per_second(unit);
        let step = NANOSECONDS_PER_SECOND / a_second;
        for (days, nanoseconds) in times(values) {
            let count = (days - EPOCH_DAY) * SECONDS_PER_DAY * a_second + nanoseconds / step;
            // Spark counts microseconds since Julian day 0. This count overflows in about the year
            // 287,000. Such values have a negative day and a negative time of day. The `parquet`
            // crate's arithmetic overflows in the same way and therefore produces the correct time.
            let is_of_spark = unit == TimeUnit::Microsecond && days < 0 && nanoseconds < 0;
            if i64::try_from(count).is_err() && !is_of_spark {
                let years = (days - EPOCH_DAY) * 400 / 146_097 + 1970;
                return Err(match unit {
                    TimeUnit::Nanosecond => {
                        Error::unsupported("an INT96 time is outside the range of nanosecond timestamps")
                            .hint("pass -i int96=us to read microseconds")
                            .expected("a year from 1677 to 2262")
                            .found(format!("the year {years}"))
                    }
                    _ => Error::unsupported("an INT96 time does not fit into 64 bits")
                        .found(format!("the year {years}")),
                });
            }
            if nanoseconds % step != 0 && !self.is_chosen {
                return Err(Error::unsupported(
                    "an INT96 time is more precise than the unit in which it is read",
                )
                .hint("pass -i int96=ns to read nanoseconds")
                .found(format!("{} ns after the second", nanoseconds % NANOSECONDS_PER_SECOND)));
            }
        }
        Ok(())
    }
}

/// Returns whether any value is more precise than a microsecond.
pub(super) fn has_nanoseconds(values: &[u8]) -> bool {
    times(values).any(|(_, nanoseconds)| nanoseconds % 1000 != 0)
}

fn per_second(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => NANOSECONDS_PER_SECOND,
    }
}

/// Returns the day and the nanoseconds of each value.
fn times(values: &[u8]) -> impl Iterator<Item = (i128, i128)> {
    values.as_chunks::<12>().0.iter().map(|value| {
        let [a, b, c, d, e, f, g, h, day @ ..] = *value;
        let nanoseconds = i64::from_le_bytes([a, b, c, d, e, f, g, h]);
        (i32::from_le_bytes(day).into(), nanoseconds.into())
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn value(day: i32, nanoseconds: i64) -> Vec<u8> {
        [&nanoseconds.to_le_bytes()[..], &day.to_le_bytes()].concat()
    }

    #[test]
    fn values_fit_into_their_unit_or_are_refused() {
        let of = |unit, is_chosen| Int96Units { units: vec![None, Some(unit)], is_chosen };
        let (ns, us) = (of(TimeUnit::Nanosecond, false), of(TimeUnit::Microsecond, false));
        // 1970-01-01, 9999-12-31, and one nanosecond after 1970-01-01.
        let (epoch, far, fine) = (value(2_440_588, 0), value(5_373_484, 0), value(2_440_588, 1));
        ns.check(1, &[epoch.clone(), fine.clone()].concat()).unwrap();
        us.check(1, &[epoch.clone(), far.clone()].concat()).unwrap();
        let error = ns.check(1, &[epoch, far].concat()).unwrap_err().to_string();
        assert!(error.contains("range of nanosecond timestamps") && error.contains("9999"), "{error}");
        assert!(us.check(1, &fine).unwrap_err().to_string().contains("more precise"));
        of(TimeUnit::Microsecond, true).check(1, &fine).unwrap();
        assert!(us.check(1, &value(i32::MAX, 0)).unwrap_err().to_string().contains("64 bits"));
        us.check(0, &value(i32::MAX, 1)).unwrap();
        us.check(1, &value(-105_862_232, -32_400_000_000_000)).unwrap();
        assert!(has_nanoseconds(&fine) && !has_nanoseconds(&value(1, 1000)));
    }
}
