//! Tags in the names of a set's files, which make the names differ from those of an older set. An
//! object store cannot rename objects, so the new files are written next to the older set. The
//! index is replaced last, and determines the valid set.

use crate::write::target::OutputTarget;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::SystemTime;
use tensorferry_core::context::session::Session;
use tensorferry_publish::remote::folder::{RemoteFolder, is_refusal};
use tensorferry_sdk::{Result, ShardTag, Side, Target};

/// Returns the writer's options. If the output may replace an older output in a store, adds a
/// [tag](ShardTag) that no other run uses. The files are written to the folder `folder` of the
/// store.
pub fn with_tag(
    target: &OutputTarget<'_>,
    given: &[(String, String)],
    force: bool,
    folder: &str,
    session: &Session,
) -> Result<Vec<(String, String)>> {
    let mut options = given.to_vec();
    let mut declared = target.format.description.options.iter();
    let is_declared = declared.any(|spec| spec.side == Side::Writer && spec.key == ShardTag::OPTION);
    let is_given = given.iter().any(|(key, _)| key == ShardTag::OPTION);
    if force && is_declared && !is_given && may_stand(target, folder, session)? {
        options.push((ShardTag::OPTION.to_owned(), ShardTag::text(number_of_run())));
    }
    Ok(options)
}

/// Returns whether the output's folder in a store may already contain files with such names. Also
/// returns `true` if the store refuses to list the folder.
fn may_stand(target: &OutputTarget<'_>, folder: &str, session: &Session) -> Result<bool> {
    let Some(store) = RemoteFolder::of(&target.destination, session)? else { return Ok(false) };
    let stem = match &target.target {
        Target::Folder => "",
        Target::File(name) => name.split('.').next().unwrap_or_default(),
    };
    match store.files(folder) {
        Ok(names) => Ok(names.iter().any(|name| name.starts_with(stem))),
        Err(error) if is_refusal(error.kind()) => Ok(true),
        Err(error) => Err(error),
    }
}

/// Returns a number that another run is unlikely to use. If two runs use the same number, the store
/// refuses to create a second object with the same name.
fn number_of_run() -> u32 {
    let [.., a, b, c, d] = RandomState::new().hash_one(SystemTime::now()).to_be_bytes();
    u32::from_be_bytes([a, b, c, d])
}
