//! Chooses the file of a model if the format stores each model in a single file. The input is that
//! file, or a folder that contains exactly one such file.

use crate::choose::unjoinable_ranks;
use crate::listing::list;
use crate::ranks::are_ranks_of_one_model;
use tensorferry_sdk::file_name::has_any_suffix;
use tensorferry_sdk::{Entry, Error, Result, Source};

/// Returns the file that the source's entry refers to. If the entry is a folder, returns the only
/// file in it that has one of these endings.
pub fn only_file(source: &dyn Source, endings: &[&str]) -> Result<String> {
    let named = endings.join(" or ");
    match source.entry() {
        Entry::File(name) => Ok(name.clone()),
        Entry::Prefix(prefix) => Err(Error::malformed("no such file").file(prefix)),
        Entry::Folder => {
            let names = source.list("")?;
            let is_one = |name: &String| !name.starts_with('.') && has_any_suffix(name, endings);
            let mut found = names.into_iter().filter(is_one);
            match (found.next(), found.next()) {
                (None, _) => Err(Error::malformed(format!("the folder contains no {named} file"))),
                (Some(only), None) => Ok(only),
                (Some(first), Some(second)) => {
                    let all: Vec<String> = [first, second].into_iter().chain(found).collect();
                    let names: Vec<&str> = all.iter().map(String::as_str).collect();
                    if are_ranks_of_one_model(&names) {
                        return Err(unjoinable_ranks(&names));
                    }
                    let all = all.iter().map(|name| format!("{name:?}"));
                    Err(Error::usage(format!("the folder contains several {named} files"))
                        .found(list(all).unwrap_or_default())
                        .hint("pass one of the files"))
                }
            }
        }
    }
}
