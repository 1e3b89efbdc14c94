//! Converts enumerations to numbers for the boundary, and back. An unknown number is unsupported,
//! and is never replaced by a default.

use crate::{ByteOrder, Edges, Error, Level, Order, Result, Role, Target};

pub(super) fn unknown(what: &str, number: u32) -> Error {
    Error::unsupported(format!("the other side of the boundary uses an unknown {what}")).found(number)
}

pub(super) fn byte_order_number(order: ByteOrder) -> u32 {
    match order {
        ByteOrder::Little => 0,
        ByteOrder::Big => 1,
    }
}

pub(super) fn byte_order(number: u32) -> Result<ByteOrder> {
    match number {
        0 => Ok(ByteOrder::Little),
        1 => Ok(ByteOrder::Big),
        _ => Err(unknown("byte order", number)),
    }
}

pub(super) fn role_number(role: Role) -> u32 {
    match role {
        Role::Data => 0,
        Role::Index => 1,
    }
}

pub(super) fn role(number: u32) -> Result<Role> {
    match number {
        0 => Ok(Role::Data),
        1 => Ok(Role::Index),
        _ => Err(unknown("role", number)),
    }
}

pub(super) fn order_number(order: Order) -> u32 {
    match order {
        Order::C => 0,
        Order::Fortran => 1,
    }
}

pub(super) fn order(number: u32) -> Result<Order> {
    match number {
        0 => Ok(Order::C),
        1 => Ok(Order::Fortran),
        _ => Err(unknown("order", number)),
    }
}

pub(super) fn edges_number(edges: Edges) -> u32 {
    match edges {
        Edges::Clipped => 0,
        Edges::Padded => 1,
    }
}

pub(super) fn edges(number: u32) -> Result<Edges> {
    match number {
        0 => Ok(Edges::Clipped),
        1 => Ok(Edges::Padded),
        _ => Err(unknown("storage of tiles at the edges", number)),
    }
}

pub(super) fn target_number(target: &Target) -> (u32, &str) {
    match target {
        Target::File(name) => (0, name),
        Target::Folder => (1, ""),
    }
}

pub(super) fn target(number: u32, name: &str) -> Result<Target> {
    match number {
        0 => Ok(Target::File(name.to_owned())),
        1 => Ok(Target::Folder),
        _ => Err(unknown("kind of target", number)),
    }
}

pub(super) fn level_number(level: Level) -> u32 {
    match level {
        Level::Error => 0,
        Level::Warning => 1,
        Level::Note => 2,
        Level::Detail => 3,
    }
}

/// Returns the log level with this number. An unknown level becomes a note, so that no call fails
/// only because of a message.
#[must_use]
pub fn level(number: u32) -> Level {
    match number {
        0 => Level::Error,
        1 => Level::Warning,
        3 => Level::Detail,
        _ => Level::Note,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    /// Both sides must refuse an unknown number from a later revision, and must not treat it as a
    /// known number.
    #[test]
    fn a_number_that_is_not_known_is_unsupported() {
        for number in [2, 4711, u32::MAX] {
            let all = [
                byte_order(number).err(),
                role(number).err(),
                order(number).err(),
                edges(number).err(),
                target(number, "name").err(),
            ];
            for error in all {
                assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::Unsupported), "{number}");
            }
        }
    }

    #[test]
    fn a_line_of_a_level_that_is_not_known_is_a_note() {
        for level_of in [Level::Error, Level::Warning, Level::Note, Level::Detail] {
            assert_eq!(level(level_number(level_of)), level_of);
        }
        assert_eq!([4, u32::MAX].map(level), [Level::Note; 2]);
    }
}
