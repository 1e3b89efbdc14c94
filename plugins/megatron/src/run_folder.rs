//! Finds the folders of a run's ranks. This module selects the iteration, and derives each rank's
//! position in the grid from the folder's name.

use crate::args::Args;
use std::collections::BTreeMap;
use tensorferry_megatron_model::{GridSize, Rank};
use tensorferry_sdk::{Entry, Error, ErrorKind, Result, Source};

/// The file that contains the number of the newest iteration.
pub(crate) const TRACKER: &str = "latest_checkpointed_iteration.txt";
/// Maximum length of the tracker in bytes. A tracker normally contains a single number.
const MAX_TRACKER_BYTES: u64 = 64;
/// A file that only distributed checkpoints contain.
const DISTRIBUTED: &str = "metadata.json";
pub(crate) const RELEASE: &str = "release";
/// Maximum number of ranks.
const MAX_RANKS: u64 = 4096;
/// Maximum number of folders that an error lists.
const MAX_LISTED: usize = 20;
/// Prefix of rank folder names.
const RANK: &str = "mp_rank_";
/// Possible names of a rank's file. Megatron uses the second name if the optimizer has its own
/// file.
const FILES: [&str; 2] = ["model_optim_rng.pt", "model_rng.pt"];

/// The path of a rank's folder, and the numbers in the folder's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RankFolder {
    pub(crate) path: String,
    numbers: Vec<u64>,
}

impl RankFolder {
    /// Returns the path of the file that contains the rank's part of the model.
    pub(crate) fn file(&self, source: &dyn Source) -> Result<String> {
        for name in FILES {
            let path = format!("{}{name}", self.prefix());
            if source.contains(&path)? {
                return Ok(path);
            }
        }
        Err(Error::malformed("the rank folder has no model file").file(&self.path).expected(FILES[0]))
    }

    /// Returns the folder's path with a slash at the end, or an empty string for the input folder
    /// itself.
    fn prefix(&self) -> String {
        if self.path.is_empty() { String::new() } else { format!("{}/", self.path) }
    }

    /// Returns the files of the sharded optimizer in the folder, which are not part of the model.
    pub(crate) fn others(&self, source: &dyn Source) -> Result<Vec<String>> {
        let names = source.list(&self.prefix())?;
        let is_other = |name: &String| !FILES.contains(&name.rsplit('/').next().unwrap_or_default());
        Ok(names.into_iter().filter(is_other).collect())
    }
}

/// Returns the input as a rank folder if it contains a rank's file, but neither rank folders nor a
/// tracker. The name of the input folder is unknown, so the numbers in it are also unknown.
pub(crate) fn one_rank(source: &dyn Source) -> Result<Option<RankFolder>> {
    // List the folder first, so that remote inputs need one request instead of one per name.
    let is_one = *source.entry() == Entry::Folder
        && !source.folders("")?.iter().any(|name| name.starts_with(RANK))
        && !source.contains(TRACKER)?
        && source.first_of(FILES.map(str::to_owned))?.is_some();
    Ok(is_one.then(|| RankFolder { path: String::new(), numbers: vec![0] }))
}

/// Returns the rank folders of the requested iteration. If no iteration is requested, returns the
/// rank folders of the newest iteration. Without a tracker, the input folder itself contains the
/// rank folders.
pub(crate) fn find(source: &dyn Source, iteration: Option<&str>) -> Result<Vec<RankFolder>> {
    let folder = folder(source, iteration)?;
    let folders = rank_folders(source, &folder)?;
    if folders.is_empty() {
        let error = Error::malformed("no rank folders").file(if folder.is_empty() { "." } else { &folder });
        return Err(error.expected("mp_rank_00 and so on"));
    }
    if folders.len() as u64 > MAX_RANKS {
        return Err(Error::limit("too many ranks")
            .expected(format!("at most {MAX_RANKS}"))
            .found(folders.len()));
    }
    Ok(folders)
}

fn folder(source: &dyn Source, iteration: Option<&str>) -> Result<String> {
    let Some(text) = iteration else { return Ok(newest(source)?.unwrap_or_default()) };
    let refused = || {
        Error::usage(format!("invalid value {text:?} for option `iteration`"))
            .hint("pass a number, or release")
    };
    folder_named(text).ok_or_else(refused)
}

/// Returns the folder of the requested or newest iteration if it is a distributed checkpoint. The
/// returned path is empty or ends with a slash.
pub(crate) fn distributed(source: &dyn Source, iteration: Option<&str>) -> Result<Option<String>> {
    let folder = folder(source, iteration)?;
    let folder = if folder.is_empty() { folder } else { format!("{folder}/") };
    let is_distributed = source.contains(&format!("{folder}{DISTRIBUTED}"))?;
    Ok(Some(folder).filter(|_| is_distributed))
}

/// Returns the folder to which the tracker refers, or `None` if there is no tracker.
pub(crate) fn newest(source: &dyn Source) -> Result<Option<String>> {
    if !source.contains(TRACKER)? {
        return Ok(None);
    }
    let file = source.open(TRACKER)?;
    let malformed = || {
        Error::malformed("the file does not contain an iteration")
            .file(TRACKER)
            .expected("a number, or release")
    };
    let len = source.len(file);
    if len > MAX_TRACKER_BYTES {
        return Err(malformed().found(format!("{len} bytes")));
    }
    let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
    source.read_at(file, 0, &mut bytes)?;
    let folder = std::str::from_utf8(&bytes).ok().and_then(|text| folder_named(text.trim()));
    folder.map(Some).ok_or_else(|| malformed().found(bytes.escape_ascii()))
}

fn folder_named(text: &str) -> Option<String> {
    if text == RELEASE {
        return Some(text.to_owned());
    }
    Some(format!("iter_{:07}", number(text)?))
}

fn number(text: &str) -> Option<u64> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

/// Returns the rank folders in a folder. Returns a specific error if the folder does not exist.
pub(crate) fn rank_folders(source: &dyn Source, folder: &str) -> Result<Vec<RankFolder>> {
    let paths = source.folders(folder).map_err(|error| match error.kind() {
        ErrorKind::Io => Error::malformed("no such folder").file(folder),
        _ => error,
    })?;
    let mut folders = Vec::new();
    for path in paths {
        let name = path.rsplit('/').next().unwrap_or_default();
        let Some(numbers) = name.strip_prefix(RANK) else { continue };
        let numbers: Option<Vec<u64>> = numbers.split('_').map(number).collect();
        let numbers = numbers.filter(|numbers| numbers.len() <= 3);
        let numbers = numbers.ok_or_else(|| {
            Error::malformed("invalid rank folder name").file(&path).expected(
                "mp_rank_TT, optionally with _PPP for the pipeline rank and _EEE for the expert rank",
            )
        })?;
        folders.push(RankFolder { path, numbers });
    }
    Ok(folders)
}

/// If the second number in each folder's name can be a pipeline rank or an expert rank, returns the
/// folder with the highest second number. The parameter names in this folder determine the meaning
/// of the number. Returns `None` if the names have no second numbers, or if the arguments declare
/// the numbers of ranks.
pub(crate) fn last_ambiguous<'f>(folders: &'f [RankFolder], args: &Args) -> Option<&'f RankFolder> {
    let is_said = ["pipeline_model_parallel_size", "expert_model_parallel_size"]
        .into_iter()
        .any(|key| args.count(key).is_some());
    let are_two = folders.iter().all(|folder| folder.numbers.len() == 2);
    let last = folders.iter().max_by_key(|folder| folder.numbers.get(1));
    last.filter(|folder| !is_said && are_two && folder.numbers[1] > 0)
}

/// Returns the size of the grid, and each rank's folder. The size is taken from the arguments of a
/// rank, or from the folders' names if the arguments do not contain it. If the size is taken from
/// the names, `second_is_expert` determines whether the second number in a name is an expert rank.
pub(crate) fn grid(
    folders: Vec<RankFolder>,
    args: &Args,
    second_is_expert: bool,
) -> Result<(GridSize, BTreeMap<Rank, RankFolder>)> {
    let most = |place: usize| {
        folders.iter().filter_map(|f| f.numbers.get(place)).max().map_or(1, |n| n.saturating_add(1))
    };
    let argument =
        |keys: &[&str], names: u64| keys.iter().find_map(|key| args.count(key)).unwrap_or(names).max(1);
    let experts = argument(&["expert_model_parallel_size"], most(if second_is_expert { 1 } else { 2 }));
    let size = GridSize {
        tensor: argument(&["tensor_model_parallel_size", "model_parallel_size"], most(0)),
        stages: argument(
            &["pipeline_model_parallel_size"],
            if experts > 1 && most(2) == 1 { 1 } else { most(1) },
        ),
        experts,
    };
    let count = size.tensor.checked_mul(size.stages).and_then(|count| count.checked_mul(size.experts));
    let count = count.filter(|&count| count <= MAX_RANKS).ok_or_else(|| {
        Error::limit("too many ranks")
            .expected(format!("at most {MAX_RANKS}"))
            .found(format!("{} x {} x {}", size.tensor, size.stages, size.experts))
    })?;
    let mut ranks: BTreeMap<Rank, RankFolder> = BTreeMap::new();
    for folder in folders {
        let (stage, expert) = match *folder.numbers {
            [_, expert] if size.stages == 1 && size.experts > 1 => (0, expert),
            [_, stage] => (stage, 0),
            [_, stage, expert] => (stage, expert),
            _ => (0, 0),
        };
        let rank = Rank { stage, expert, tensor: folder.numbers[0] };
        if rank.tensor >= size.tensor || stage >= size.stages || expert >= size.experts {
            let error = Error::malformed("a folder belongs to a rank that is not part of the run")
                .hint("remove the folders of earlier runs");
            return Err(error.file(folder.path).expected(describe_grid(size)));
        }
        if let Some(before) = ranks.insert(rank, folder) {
            let after = ranks.get(&rank).map_or("", |folder| &folder.path);
            return Err(Error::malformed("two folders for one rank").file(after).found(before.path));
        }
    }
    if (ranks.len() as u64) < count {
        let missing: Vec<String> =
            size.ranks().filter(|rank| !ranks.contains_key(rank)).map(|rank| size.folder(rank)).collect();
        let named = missing.get(..MAX_LISTED).unwrap_or(&missing).join(", ");
        let folder =
            ranks.values().next().and_then(|any| any.path.rsplit_once('/')).map_or(".", |(folder, _)| folder);
        return Err(Error::malformed(format!("{} ranks are missing: {named}", missing.len()))
            .file(folder)
            .expected(describe_grid(size))
            .found(format!("{} folders", ranks.len())));
    }
    Ok((size, ranks))
}

fn describe_grid(size: GridSize) -> String {
    let GridSize { tensor, stages, experts } = size;
    format!(
        "{tensor} tensor x {stages} pipeline x {experts} expert ranks, according to the arguments or names"
    )
}
