//! The schemas of data sets: each is fixed over all of the data set's units before the first of them runs,
//! so that what one run writes, and the next that goes on, is one table.
//!
//! ```text
//! units --scan, each--> schemas --the reader's own, of one unit of each kind--> one schema --> its file
//! ```
//!
//! The host never guesses what a format would say. Every unit is scanned on its own, once, and the journal
//! keeps what was found: so that a run that was killed goes on, and a file that changed is the only one
//! that is read again. Where the schemas differ, the reader looks at one unit of each kind as at one input.
//! A reader that takes no schema cannot be told: there the schema that most units have holds.

use super::job::{Conversion, Job};
use super::journal::History;
use super::scan::{Scan, key};
use super::summary::Failure;
use crate::exit::REFUSED;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::path::{Path, PathBuf};
use tensorferry::engine::context::fault;
use tensorferry::engine::formats::registry::Registry;
use tensorferry::engine::read::unit::{Unit, first_difference};
use tensorferry_sdk::{Error, Result};

/// What a look at a unit found, or why it found nothing.
pub(super) type Scanned = std::result::Result<Scan, Failure>;

/// Scans units that no journal knows, in the same order. None for those that it did not come to.
pub(super) type Read<'a> = dyn Fn(&[Job]) -> Result<Vec<Option<Scanned>>> + 'a;

/// What fixing came to.
#[derive(Debug, Default)]
pub(super) struct Fixed {
    /// Units that cannot be converted, by their place.
    pub(super) failures: HashMap<usize, Failure>,
    /// Units whose records contradict those of the others. The reader, with the schema in hand, says best where.
    pub(super) refused: HashMap<usize, Failure>,
    /// What the others were when they were scanned.
    pub(super) scans: HashMap<usize, Scan>,
}

/// Fixes the schemas of the data sets that have a job among those that are `wanted`, and tells each of
/// their units. A data set of which `read` leaves a unit out stays as it is.
///
/// # Errors
/// I/o, if a schema cannot be kept beside the journal; whatever `read` gives.
pub(super) fn fix(
    jobs: &mut [Job],
    wanted: &dyn Fn(&Job) -> bool,
    history: &History,
    registry: &Registry,
    keep: &Keep<'_>,
    read: &Read<'_>,
) -> Result<Fixed> {
    let mut datasets: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, job) in jobs.iter().enumerate() {
        if let Some(unit) = job.conversion.unit.as_ref().filter(|_| job.shares_schema()) {
            datasets.entry(unit.dataset.clone()).or_default().push(index);
        }
    }
    datasets.retain(|_, units| units.iter().any(|&unit| wanted(&jobs[unit])));
    let scans = Scans { history, registry, read };
    let units: Vec<usize> = datasets.values().flatten().copied().collect();
    let units_jobs: Vec<Job> = units.iter().map(|&unit| jobs[unit].clone()).collect();
    let mut scanned: HashMap<usize, _> = units.into_iter().zip(scans.of(&units_jobs)?).collect();
    let mut fixed = Fixed::default();
    for (name, units) in datasets {
        let of_units = units.iter().filter_map(|unit| Some((*unit, scanned.remove(unit)??)));
        let of_units: Vec<(usize, Scanned)> = of_units.collect();
        if of_units.len() < units.len() {
            continue;
        }
        let mut dataset = Dataset {
            jobs: &*jobs,
            scans: &scans,
            good: Vec::new(),
            failures: HashMap::new(),
            refused: HashMap::new(),
        };
        let schema = dataset.schema(of_units)?;
        let Dataset { good, failures, refused, .. } = dataset;
        fixed.failures.extend(failures);
        fixed.refused.extend(refused);
        if let Some(schema) = schema
            && let Some(path) = keep.schema(&name, &schema)?
        {
            for unit in units {
                if let Some(unit) = &mut jobs[unit].conversion.unit {
                    unit.schema = Some(path.clone());
                }
            }
        }
        fixed.scans.extend(good);
    }
    Ok(fixed)
}

/// Scans, known or made.
struct Scans<'a> {
    history: &'a History,
    registry: &'a Registry,
    read: &'a Read<'a>,
}

impl Scans<'_> {
    fn of(&self, jobs: &[Job]) -> Result<Vec<Option<Scanned>>> {
        let known = |job: &Job| {
            let scan = self.history.scan(&key(job, job.conversion.unit.as_ref()?))?;
            scan.is_valid(self.registry).then(|| scan.clone())
        };
        let mut found: Vec<_> = jobs.iter().map(|job| known(job).map(Ok)).collect();
        let missing: Vec<usize> = (0..jobs.len()).filter(|&place| found[place].is_none()).collect();
        if !missing.is_empty() {
            let to_read: Vec<Job> = missing.iter().map(|&place| jobs[place].clone()).collect();
            for (place, scan) in missing.into_iter().zip((self.read)(&to_read)?) {
                found[place] = scan;
            }
        }
        Ok(found)
    }
}

/// The units of one data set.
struct Dataset<'a> {
    jobs: &'a [Job],
    scans: &'a Scans<'a>,
    good: Vec<(usize, Scan)>,
    failures: HashMap<usize, Failure>,
    refused: HashMap<usize, Failure>,
}

/// Units that have one schema.
struct Alike {
    schema: Value,
    units: Vec<usize>,
}

impl Dataset<'_> {
    /// The schema of all units that can be read with the others; none if there is nothing to go by.
    fn schema(&mut self, units: Vec<(usize, Scanned)>) -> Result<Option<Value>> {
        let all: Vec<usize> = units.iter().map(|(unit, _)| *unit).collect();
        for (unit, scan) in units {
            match scan {
                Ok(scan) => self.good.push((unit, scan)),
                Err(failure) => drop(self.failures.insert(unit, failure)),
            }
        }
        // What is wrong with a file is wrong with it alone. Of what was not read for another reason nobody
        // knows the columns, and a schema without them would leave them out.
        let unknown = self.failures.iter().filter(|(_, failure)| !is_refusal(failure));
        if let Some((&unit, failure)) = unknown.min_by_key(|(unit, _)| **unit) {
            let failure = Failure {
                message: format!(
                    "the schema of the data set is not known yet, since {} could not be read: {}",
                    self.jobs[unit].name, failure.message
                ),
                ..failure.clone()
            };
            self.failures.extend(all.into_iter().map(|unit| (unit, failure.clone())));
            self.good.clear();
            return Ok(None);
        }
        let mut kinds: Vec<Alike> = Vec::new();
        for (unit, scan) in &self.good {
            match kinds.iter_mut().find(|kind| kind.schema == scan.schema) {
                Some(kind) => kind.units.push(*unit),
                None => kinds.push(Alike { schema: scan.schema.clone(), units: vec![*unit] }),
            }
        }
        // Those that most units have come first; of as many, those of the first unit.
        kinds.sort_by_key(|kind| (std::cmp::Reverse(kind.units.len()), kind.units[0]));
        let takes_schema = self.good.iter().all(|(_, scan)| scan.takes_schema);
        let schema = match kinds.len() {
            0 | 1 => kinds.pop().map(|kind| kind.schema),
            _ if takes_schema => self.together(kinds)?,
            _ => self.most(kinds),
        };
        let failures = &self.failures;
        self.good.retain(|(unit, _)| !failures.contains_key(unit));
        Ok(schema)
    }

    /// The schema that the reader finds in one unit of each kind. Kinds that contradict those of more units
    /// are refused.
    fn together(&mut self, kinds: Vec<Alike>) -> Result<Option<Value>> {
        let first = |kind: &Alike| kind.units[0];
        match self.joint(&kinds.iter().map(first).collect::<Vec<_>>())? {
            Some(Ok(scan)) => return Ok(Some(scan.schema)),
            Some(Err(failure)) if is_refusal(&failure) => {}
            // Not read, or not for a reason of their own.
            other => return Ok(self.none(other.and_then(Scanned::err))),
        }
        let mut kinds = kinds.into_iter();
        let Some(most) = kinds.next() else { return Ok(None) };
        let (mut accepted, mut schema) = (vec![first(&most)], most.schema);
        for kind in kinds {
            let mut tried = accepted.clone();
            tried.push(first(&kind));
            match self.joint(&tried)? {
                Some(Ok(scan)) => (accepted, schema) = (tried, scan.schema),
                Some(Err(failure)) if is_refusal(&failure) => {
                    self.refused.extend(kind.units.into_iter().map(|unit| (unit, failure.clone())));
                }
                other => return Ok(self.none(other.and_then(Scanned::err))),
            }
        }
        Ok(Some(schema))
    }

    /// No schema: the units fail for this reason, if there is one.
    fn none(&mut self, failure: Option<Failure>) -> Option<Value> {
        if let Some(failure) = failure {
            let units: Vec<usize> = self.good.iter().map(|(unit, _)| *unit).collect();
            self.failures.extend(units.into_iter().map(|unit| (unit, failure.clone())));
        }
        None
    }

    /// A scan of several units as of one input.
    fn joint(&self, units: &[usize]) -> Result<Option<Scanned>> {
        let Some(&first) = units.first() else { return Ok(None) };
        let job = &self.jobs[first];
        let Some(unit) = &job.conversion.unit else { return Ok(None) };
        let of = |index: &usize| self.jobs[*index].conversion.unit.as_ref().map(|unit| unit.files.clone());
        let mut files: Vec<String> = units.iter().filter_map(of).flatten().collect();
        files.sort();
        let unit = Unit { files, ..unit.clone() };
        let job = Job {
            name: unit.dataset.clone(),
            conversion: Conversion { unit: Some(unit), ..job.conversion.clone() },
            ..job.clone()
        };
        Ok(self.scans.of(&[job])?.pop().flatten())
    }

    /// The schema that most units have; the others are refused.
    fn most(&mut self, kinds: Vec<Alike>) -> Option<Value> {
        let mut kinds = kinds.into_iter();
        let most = kinds.next()?.schema;
        for kind in kinds {
            let difference = first_difference(&most, &kind.schema);
            for unit in kind.units {
                let mut error = Error::malformed(
                    "the schema is another than that of most files of the data set, and this format's reader takes none",
                );
                if let Some(of) = &self.jobs[unit].conversion.unit {
                    error = error.file(&of.files[0]);
                }
                if let Some((column, expected, found)) = &difference {
                    let text =
                        |of: &Option<String>| of.clone().unwrap_or_else(|| "no such column".to_owned());
                    error = error.column(column).expected(text(expected)).found(text(found));
                }
                self.failures.insert(unit, Failure::of(&error, REFUSED));
            }
        }
        Some(most)
    }
}

fn is_refusal(failure: &Failure) -> bool {
    failure.exit_code == Some(i32::from(REFUSED))
}

/// Where schemas are kept: beside the journal.
pub(super) struct Keep<'a> {
    /// The manifest's journal.
    pub(super) journal: &'a Path,
    /// Whether one that is not there is written.
    pub(super) writes: bool,
}

impl Keep<'_> {
    /// The file of a schema; none, if it is not there and is not to be written.
    fn schema(&self, dataset: &str, schema: &Value) -> Result<Option<PathBuf>> {
        let mut text = serde_json::to_vec_pretty(schema).map_err(|e| Error::io(e.to_string()))?;
        text.push(b'\n');
        let digest = blake3::hash(&text).to_hex();
        let name = self.journal.file_name().unwrap_or_default().to_string_lossy();
        let stem = name.strip_suffix(".jsonl").unwrap_or(&name);
        let stem = stem.strip_suffix(".journal").unwrap_or(stem);
        let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
        let dataset: String = dataset.chars().map(plain).collect();
        let path = self.journal.with_file_name(format!("{stem}.{dataset}.{}.schema.json", &digest[..16]));
        let path = std::path::absolute(&path).map_err(|e| Error::from(e).file(path.display().to_string()))?;
        if std::fs::read(&path).is_ok_and(|there| there == text) {
            return Ok(Some(path));
        }
        if !self.writes {
            return Ok(None);
        }
        fault::reach("schema-found")?;
        let failed = |e: std::io::Error| {
            Error::from(e).context("cannot keep the data set's schema").file(path.display().to_string())
        };
        let folder = path.parent().unwrap_or(Path::new("/"));
        let mut file =
            tempfile::Builder::new().prefix(".ferry-schema-").tempfile_in(folder).map_err(failed)?;
        file.write_all(&text).and_then(|()| file.as_file().sync_data()).map_err(failed)?;
        file.persist(&path).map_err(|e| failed(e.error))?;
        fault::reach("schema-kept")?;
        Ok(Some(path))
    }
}
