//! Determines the schema of a dataset from all of its file groups before the first group is
//! converted.
//!
//! As a result, a later run that continues the conversion writes files with the same schema.
//!
//! ```text
//! file groups --scan, each--> schemas --the reader's own scan of one group of each--> one schema --> its file
//! ```
//!
//! The host never guesses which schema a format would choose. Every group is scanned separately and
//! only once, and the result is recorded in the journal. If a run is killed, the next run continues
//! with the recorded scans and reads only changed files again. If the schemas differ, the reader
//! scans one group of each schema together as one input. If the reader does not accept a schema as
//! an option, the most frequent schema is used.

mod store;

pub(super) use store::SchemaStore;

use crate::job::Job;
use crate::journal::{GroupScan, History, StampedFile};
use crate::report::JobFailure;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use tensorferry::Registry;
use tensorferry::request::FileGroup;
use tensorferry_core::read::file_group::first_difference;
use tensorferry_sdk::{Error, Result};

/// The scan of a file group, or the reason why the scan failed.
pub(super) type ScanResult = std::result::Result<GroupScan, JobFailure>;

/// A function that scans groups that are not in the journal, and returns the results in order. A
/// result is `None` if the group was not scanned because the run ended early.
pub(super) type ScanMissing<'a> = dyn Fn(&[Job]) -> Result<Vec<Option<ScanResult>>> + 'a;

/// The result for all datasets. The keys of the maps are job indices.
#[derive(Debug, Default)]
pub(super) struct DatasetSchemas {
    /// The groups that cannot be converted.
    pub(super) failures: HashMap<usize, JobFailure>,
    /// Groups whose records contradict the records of other groups. ferry still reads these groups
    /// with the common schema, so that the reader reports where the records differ.
    pub(super) refused: HashMap<usize, JobFailure>,
    /// The state of the files of each remaining group at the time of its scan.
    pub(super) scanned: HashMap<usize, Vec<StampedFile>>,
}

/// Determines the schema of each dataset that has a selected job, and stores it in the dataset's
/// jobs. If `scan_missing` does not scan all groups of a dataset, the dataset's jobs remain
/// unchanged.
pub(super) fn find(
    jobs: &mut [Job],
    is_wanted: &dyn Fn(&Job) -> bool,
    history: &History,
    registry: &Registry,
    store: &SchemaStore<'_>,
    scan_missing: &ScanMissing<'_>,
) -> Result<DatasetSchemas> {
    let mut datasets: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, job) in jobs.iter().enumerate() {
        if let Some(group) = job.request.input.file_group.as_ref().filter(|_| job.shares_schema()) {
            datasets.entry(group.dataset.clone()).or_default().push(index);
        }
    }
    datasets.retain(|_, groups| groups.iter().any(|&group| is_wanted(&jobs[group])));
    let scanner = Scanner { history, registry, scan_missing };
    let groups: Vec<usize> = datasets.values().flatten().copied().collect();
    let group_jobs: Vec<Job> = groups.iter().map(|&group| jobs[group].clone()).collect();
    let mut scans: HashMap<usize, _> = groups.into_iter().zip(scanner.scan(&group_jobs)?).collect();
    let mut found = DatasetSchemas::default();
    for (name, groups) in datasets {
        let results = groups.iter().filter_map(|group| Some((*group, scans.remove(group)??)));
        let results: Vec<(usize, ScanResult)> = results.collect();
        if results.len() < groups.len() {
            continue;
        }
        let mut dataset = Dataset { jobs: &*jobs, scanner: &scanner, found: &mut found, scans: Vec::new() };
        let schema = dataset.schema(results)?;
        let scans = dataset.scans;
        found.scanned.extend(scans.into_iter().map(|(group, scan)| (group, scan.inputs)));
        if let Some(schema) = schema
            && let Some(path) = store.path_of(&name, &schema)?
        {
            for group in groups {
                if let Some(group) = &mut jobs[group].request.input.file_group {
                    group.schema = Some(path.clone());
                }
            }
        }
    }
    Ok(found)
}

/// Reads scans from the journal, and runs the scans that the journal does not contain.
struct Scanner<'a> {
    history: &'a History,
    registry: &'a Registry,
    scan_missing: &'a ScanMissing<'a>,
}

impl Scanner<'_> {
    fn scan(&self, jobs: &[Job]) -> Result<Vec<Option<ScanResult>>> {
        let known = |job: &Job| {
            let scan = self.history.scan(&GroupScan::key(job)?)?;
            scan.is_valid(self.registry).then(|| Ok(scan.clone()))
        };
        let mut scans: Vec<_> = jobs.iter().map(known).collect();
        let missing: Vec<usize> = (0..jobs.len()).filter(|&place| scans[place].is_none()).collect();
        if !missing.is_empty() {
            let missing_jobs: Vec<Job> = missing.iter().map(|&place| jobs[place].clone()).collect();
            for (place, scan) in missing.into_iter().zip((self.scan_missing)(&missing_jobs)?) {
                scans[place] = scan;
            }
        }
        Ok(scans)
    }
}

struct Dataset<'a> {
    jobs: &'a [Job],
    scanner: &'a Scanner<'a>,
    found: &'a mut DatasetSchemas,
    /// The scans of groups that have not failed.
    scans: Vec<(usize, GroupScan)>,
}

/// A schema, and the groups that have this schema. There is at least one group.
struct Variant {
    schema: Value,
    groups: Vec<usize>,
}

impl Dataset<'_> {
    /// Returns the common schema of all groups that can be read together. Returns `None` if no
    /// schema is known.
    fn schema(&mut self, results: Vec<(usize, ScanResult)>) -> Result<Option<Value>> {
        let all: Vec<usize> = results.iter().map(|(group, _)| *group).collect();
        // If a file is malformed, only its own group fails. If a group could not be read for a
        // different reason, its columns are unknown. A schema without these columns would drop them
        // from the output.
        let unknown = results.iter().filter_map(|(group, scan)| Some((*group, scan.as_ref().err()?)));
        if let Some((group, failure)) =
            unknown.filter(|(_, failure)| !failure.is_refusal()).min_by_key(|(group, _)| *group)
        {
            let message = format!(
                "the schema of the dataset cannot be determined, because {} could not be read: {}",
                self.jobs[group].name, failure.message
            );
            let failure = JobFailure { message, ..failure.clone() };
            self.found.failures.extend(all.into_iter().map(|group| (group, failure.clone())));
            return Ok(None);
        }
        for (group, scan) in results {
            match scan {
                Ok(scan) => self.scans.push((group, scan)),
                Err(failure) => drop(self.found.failures.insert(group, failure)),
            }
        }
        let mut variants: Vec<Variant> = Vec::new();
        for (group, scan) in &self.scans {
            match variants.iter_mut().find(|variant| variant.schema == scan.schema) {
                Some(variant) => variant.groups.push(*group),
                None => variants.push(Variant { schema: scan.schema.clone(), groups: vec![*group] }),
            }
        }
        // Variants are sorted by their number of groups, most frequent first, and then by their
        // first group.
        variants.sort_by_key(|variant| (std::cmp::Reverse(variant.groups.len()), variant.groups[0]));
        let takes_schema = self.scans.iter().all(|(_, scan)| scan.takes_schema);
        let schema = match variants.len() {
            0 | 1 => variants.pop().map(|variant| variant.schema),
            _ if takes_schema => self.merged(variants)?,
            _ => self.most_frequent(variants),
        };
        let failures = &self.found.failures;
        self.scans.retain(|(group, _)| !failures.contains_key(group));
        Ok(schema)
    }

    /// Returns the schema that the reader determines when it reads one group of each variant as one
    /// input. Refuses a variant that contradicts more frequent variants.
    fn merged(&mut self, variants: Vec<Variant>) -> Result<Option<Value>> {
        let first = |variant: &Variant| variant.groups[0];
        match self.scan_together(&variants.iter().map(first).collect::<Vec<_>>())? {
            Some(Ok(scan)) => return Ok(Some(scan.schema)),
            Some(Err(failure)) if failure.is_refusal() => {}
            // The scan was not started, or it failed for a reason unrelated to the files.
            other => return Ok(self.fail_all(other)),
        }
        let mut variants = variants.into_iter();
        let Some(most) = variants.next() else { return Ok(None) };
        let (mut accepted, mut schema) = (vec![first(&most)], most.schema);
        for variant in variants {
            let mut tried = accepted.clone();
            tried.push(first(&variant));
            match self.scan_together(&tried)? {
                Some(Ok(scan)) => (accepted, schema) = (tried, scan.schema),
                Some(Err(failure)) if failure.is_refusal() => {
                    let refused = variant.groups.into_iter().map(|group| (group, failure.clone()));
                    self.found.refused.extend(refused);
                }
                other => return Ok(self.fail_all(other)),
            }
        }
        Ok(Some(schema))
    }

    /// If the scan failed, makes all groups fail with its error. Always returns `None`.
    fn fail_all(&mut self, scan: Option<ScanResult>) -> Option<Value> {
        if let Some(Err(failure)) = scan {
            let groups = self.scans.iter().map(|(group, _)| *group);
            self.found.failures.extend(groups.map(|group| (group, failure.clone())));
        }
        None
    }

    /// Scans several groups as one input.
    fn scan_together(&self, groups: &[usize]) -> Result<Option<ScanResult>> {
        let group_of = |group: &usize| self.jobs[*group].request.input.file_group.as_ref();
        let Some(&first) = groups.first() else { return Ok(None) };
        let Some(group) = group_of(&first) else { return Ok(None) };
        let all = groups.iter().filter_map(group_of);
        let mut files: Vec<String> = all.flat_map(|group| group.files.clone()).collect();
        files.sort();
        let mut job = Job { name: group.dataset.clone(), ..self.jobs[first].clone() };
        job.request.input.file_group = Some(FileGroup { files, ..group.clone() });
        Ok(self.scanner.scan(&[job])?.pop().flatten())
    }

    /// Returns the most frequent schema, and refuses the groups with other schemas.
    fn most_frequent(&mut self, variants: Vec<Variant>) -> Option<Value> {
        let mut variants = variants.into_iter();
        let most = variants.next()?.schema;
        for variant in variants {
            let difference = first_difference(&most, &variant.schema);
            for group in variant.groups {
                let mut error = Error::malformed(
                    "the schema differs from the schema of most files in the dataset, and the format's reader does not accept a schema",
                );
                if let Some(of) = &self.jobs[group].request.input.file_group {
                    error = error.file(&of.files[0]);
                }
                if let Some((column, expected, found)) = &difference {
                    let text =
                        |of: &Option<String>| of.clone().unwrap_or_else(|| "no such column".to_owned());
                    error = error.column(column).expected(text(expected)).found(text(found));
                }
                self.found.failures.insert(group, JobFailure::of(&error));
            }
        }
        Some(most)
    }
}
