use super::rules::Rules;
use crate::{Capabilities, ErrorKind, OptionKind, Options, Result, Side};
use std::collections::HashSet;

pub(super) fn check(rules: &Rules<'_>) {
    let description = &rules.description;
    rules.require(rules.format.describe() == *description, "a description never changes", String::new);
    let word = |text: &str, mark: char| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == mark)
    };
    rules.require(
        word(&description.id, '-'),
        "an id consists of lowercase letters, digits and dashes",
        || format!("{:?}", description.id),
    );
    rules.require(!description.title.is_empty(), "a format has a title", String::new);
    for suffix in &description.suffixes {
        let sane = suffix.len() > 1 && suffix.starts_with('.') && !suffix.contains(['/', '\\']);
        rules.require(sane, "a suffix starts with a dot", || format!("{suffix:?}"));
    }
    for magic in &description.magic {
        let place = || format!("at offset {}", magic.offset);
        rules.require(!magic.bytes.is_empty(), "magic has bytes", place);
        let fits = magic.mask.is_empty() || magic.mask.len() == magic.bytes.len();
        rules.require(fits, "a mask is as long as its magic", place);
    }
    rules.require(description.reads() || description.writes(), "a format reads or writes", String::new);
    check_options(rules);
    check_side(rules, Capabilities::READ, Side::Reader, |options| rules.format.reader(options).map(drop));
    check_side(rules, Capabilities::WRITE, Side::Writer, |options| rules.format.writer(options).map(drop));
}

fn check_options(rules: &Rules<'_>) {
    let mut seen = HashSet::new();
    for spec in &rules.description.options {
        let key = &spec.key;
        let sane = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        rules.require(sane, "an option's key consists of letters, digits, dashes and underscores", || {
            format!("{key:?}")
        });
        rules.require(seen.insert((spec.side == Side::Reader, key)), "an option is declared once", || {
            key.clone()
        });
        let help = !spec.help.is_empty() && !spec.help.contains('\n');
        rules.require(help, "an option's help is one line", || key.clone());
        if let OptionKind::Choice(words) = &spec.kind {
            rules.require(!words.is_empty(), "a choice has words", || key.clone());
        }
        if let Some(default) = &spec.default {
            let given = [(key.clone(), default.clone())];
            let checked = Options::check(&rules.description.options, spec.side, &given);
            rules.holds(checked, "an option's default is one of its values", key);
        }
    }
}

/// Checks that a declared reader or writer works with default options, and that an undeclared one
/// is unsupported.
pub(super) fn check_side(
    rules: &Rules<'_>,
    capability: Capabilities,
    side: Side,
    make: impl FnOnce(&Options) -> Result<()>,
) {
    let options = Options::defaults(&rules.description.options, side);
    let made = rules.catch_panic(|| format!("{side:?} with default options"), || make(&options));
    let declared = rules.description.capabilities.has(capability);
    match made {
        Ok(()) => rules.require(declared, "every side of a format is declared", || format!("{side:?}")),
        Err(error) if declared => {
            let rule = rules.rule_of(&error, "a declared side works with default options");
            rules.broken(rule, &error.to_string())
        }
        Err(error) => {
            rules.require(
                error.kind() == ErrorKind::Unsupported,
                "an undeclared side is unsupported",
                || error.to_string(),
            );
        }
    }
}
