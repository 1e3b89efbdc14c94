//! An input: its files, the catalog that its reader makes from the files, and the parts that can be
//! selected.

pub mod account;
pub mod attributes;
mod cancellable;
pub mod context;
pub mod entries;
pub mod file_group;
pub mod folder;
pub mod identity;
pub mod input;
pub mod key_words;
pub mod losses;
mod marks;
pub mod model;
pub mod outline;
pub mod own_files;
pub mod part;
mod pattern;
pub mod rank_folders;
pub mod record_files;
pub mod source;
pub mod table_log;
pub mod unfinished;
pub mod value_types;
pub mod weights;
