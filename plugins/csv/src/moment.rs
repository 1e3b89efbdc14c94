//! Dates and times in ISO 8601 notation.

/// A date, or a date and a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    year: u32,
    /// Days since 1970-01-01.
    pub(crate) days: i32,
    pub(crate) clock: Option<Clock>,
}

/// A time of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Clock {
    seconds: i64,
    nanoseconds: i64,
    /// Number of digits after the decimal point, rounded up to 0, 3, 6 or 9.
    pub(crate) digits: u8,
    /// UTC offset in seconds. Times without a zone have no offset.
    offset: Option<i64>,
}

impl Clock {
    pub(crate) fn has_zone(&self) -> bool {
        self.offset.is_some()
    }
}

impl Moment {
    /// Parses a text such as `2024-02-29` or `2024-02-29T12:30:00.5+01:00`.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let date = text.first_chunk::<10>()?;
        let (year, month, day) =
            (hundred(date, 0)? * 100 + hundred(date, 2)?, hundred(date, 5)?, hundred(date, 8)?);
        let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let days = match month {
            2 => 28 + u32::from(is_leap),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        if !(date[4] == b'-' && date[7] == b'-' && (1..=12).contains(&month) && (1..=days).contains(&day)) {
            return None;
        }
        let clock = if text.len() == date.len() { None } else { Some(clock(&text[date.len()..])?) };
        Some(Self { year, days: days_since_1970(year, month, day), clock })
    }

    /// Returns whether 64-bit nanoseconds cannot represent all times of the year.
    pub(crate) fn is_far(&self) -> bool {
        !(1678..2262).contains(&self.year)
    }

    /// Returns the number of units since 1970, in UTC if the moment has a zone. A second has
    /// 10^`digits` units. Returns `None` if the number has more than 64 bits.
    pub(crate) fn timestamp(&self, clock: &Clock, digits: u8) -> Option<i64> {
        let seconds = i64::from(self.days) * 86_400 + clock.seconds - clock.offset.unwrap_or(0);
        let units = 10_i64.pow(u32::from(digits));
        seconds.checked_mul(units)?.checked_add(clock.nanoseconds / (1_000_000_000 / units))
    }
}

/// Parses the two digits at an index.
fn hundred(text: &[u8], at: usize) -> Option<u32> {
    let [tens, ones] = [text[at].wrapping_sub(b'0'), text[at + 1].wrapping_sub(b'0')];
    (tens < 10 && ones < 10).then(|| u32::from(tens) * 10 + u32::from(ones))
}

/// Parses a text such as `T12:30:00.5+01:00`.
fn clock(text: &[u8]) -> Option<Clock> {
    let time = text.first_chunk::<9>()?;
    let (hour, minute, second) = (hundred(time, 1)?, hundred(time, 4)?, hundred(time, 7)?);
    let is_separated = matches!(time[0], b'T' | b' ') && time[3] == b':' && time[6] == b':';
    if !is_separated || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let rest = &text[time.len()..];
    let (part, zone) = match rest.strip_prefix(b".") {
        None => (&[][..], rest),
        Some(part) => {
            let len = part.iter().take_while(|byte| byte.is_ascii_digit()).count();
            ((1..=9).contains(&len).then(|| &part[..len])?, &part[len..])
        }
    };
    let nanoseconds = (0..9)
        .fold(0, |value, place| value * 10 + part.get(place).map_or(0, |digit| i64::from(digit - b'0')));
    // The offset of a time zone is less than a day.
    let offset = match zone {
        [] => None,
        [b'Z'] => Some(0),
        [sign @ (b'+' | b'-'), offset @ ..] if offset.len() == 5 && offset[2] == b':' => {
            let (hours, minutes) = (hundred(offset, 0)?, hundred(offset, 3)?);
            let seconds = i64::from((hours * 60 + minutes) * 60);
            (hours < 24 && minutes < 60).then_some(Some(if *sign == b'-' { -seconds } else { seconds }))?
        }
        _ => return None,
    };
    let digits = u8::try_from(part.len().div_ceil(3) * 3).ok()?;
    Some(Clock { seconds: i64::from((hour * 60 + minute) * 60 + second), nanoseconds, digits, offset })
}

/// Returns the days from 1970-01-01 to a date of the Gregorian calendar.
fn days_since_1970(year: u32, month: u32, day: u32) -> i32 {
    // The year starts in March, so that the leap day is its last day.
    let (year, month) = if month > 2 { (year + 400, month - 3) } else { (year + 399, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    days.cast_signed() - (719_468 + 146_097)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_of_all_years_follow_each_other() {
        let mut expected = days_since_1970(0, 1, 1);
        assert_eq!((expected, days_since_1970(1970, 1, 1)), (-719_528, 0));
        for year in 0..=9999 {
            for month in 1..=12 {
                for day in 1..=31 {
                    let Some(moment) = Moment::parse(format!("{year:04}-{month:02}-{day:02}").as_bytes())
                    else {
                        continue;
                    };
                    assert_eq!(moment.days, expected, "{year} {month} {day}");
                    expected += 1;
                }
            }
        }
        assert_eq!(expected, 2_932_897);
    }

    #[test]
    fn timestamps_count_from_1970_in_utc() {
        for (text, digits, expected) in [
            ("1970-01-01T00:00:00", 0, Some(0)),
            ("1969-12-31 23:59:59.5", 3, Some(-500)),
            ("1970-01-01T01:00:00.000001+01:00", 6, Some(1)),
            ("1970-01-01T00:00:00-23:59", 0, Some(86_340)),
            ("2024-02-29T12:30:00Z", 9, Some(1_709_209_800_000_000_000)),
            ("9999-12-31T23:59:59.999999", 6, Some(253_402_300_799_999_999)),
            ("9999-12-31T23:59:59", 9, None),
        ] {
            let moment = Moment::parse(text.as_bytes());
            let found = moment.and_then(|moment| moment.timestamp(&moment.clock?, digits));
            assert_eq!(found, expected, "{text}");
        }
    }
}
