//! Names for the files of a set that none of an older set has. In a store nothing is renamed: where a set stands already,
//! the new one's files come beside it, and the index that takes the older one's place decides which of them is there.

use crate::write::target::OutputTarget;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::SystemTime;
use tensorferry_core::context::session::Session;
use tensorferry_publish::remote::folder::{RemoteFolder, is_refusal};
use tensorferry_sdk::{Result, ShardTag, Side, Target};

/// A writer's options, with a [tag](ShardTag) that no other run has where the output may replace another one in a store.
/// `folder`: the folder in it that the files go to.
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

/// Whether there may be files of such a name in the output's folder of a store. Where it is not listed, there may.
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

/// A number that another run hardly has; if one does, the store refuses the second object of a name.
fn number_of_run() -> u32 {
    let [.., a, b, c, d] = RandomState::new().hash_one(SystemTime::now()).to_be_bytes();
    u32::from_be_bytes([a, b, c, d])
}
