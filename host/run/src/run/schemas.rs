//! The schema of a data set, found over all its file groups before the first of them is converted.
//!
//! So what one run writes, and the next run that goes on, is one table.
//!
//! ```text
//! file groups --scan, each--> schemas --the reader's own scan of one group of each--> one schema --> its file
//! ```
//!
//! The host never guesses what a format would say. Every group is scanned on its own, once, and the journal
//! keeps what was found: so a run that was killed goes on, and only a file that changed is read again. Where
//! the schemas differ, the reader scans one group of each schema as one input. A reader that takes no schema
//! cannot be given one: then the schema that most groups have is taken.

mod store;

pub(super) use store::SchemaStore;

use crate::job::Job;
use crate::journal::{GroupScan, History, StampedFile};
use crate::report::Failure;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use tensorferry::Registry;
use tensorferry::request::FileGroup;
use tensorferry_core::read::file_group::first_difference;
use tensorferry_sdk::{Error, Result};

/// What a scan of a file group found, or why it found nothing.
pub(super) type ScanResult = std::result::Result<GroupScan, Failure>;

/// Scans groups that no journal knows, in the same order. None for those that were not reached.
pub(super) type ScanMissing<'a> = dyn Fn(&[Job]) -> Result<Vec<Option<ScanResult>>> + 'a;

/// The result for all data sets. Jobs are named by their place.
#[derive(Debug, Default)]
pub(super) struct DatasetSchemas {
    /// Groups that cannot be converted.
    pub(super) failures: HashMap<usize, Failure>,
    /// Groups whose records contradict those of the others. The reader, given the schema, says best where.
    pub(super) refused: HashMap<usize, Failure>,
    /// The files of the others, and what they were when they were scanned.
    pub(super) scanned: HashMap<usize, Vec<StampedFile>>,
}

/// Finds the schemas of the data sets that have a wanted job, and sets each in the data set's jobs. A data
/// set of which `scan_missing` leaves a group out stays as it is.
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

/// Scans that the journal knows, and those that have to be made.
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

/// The file groups of one data set.
struct Dataset<'a> {
    jobs: &'a [Job],
    scanner: &'a Scanner<'a>,
    found: &'a mut DatasetSchemas,
    /// Of the groups that do not fail.
    scans: Vec<(usize, GroupScan)>,
}

/// A schema, and the groups that have it; at least one.
struct Variant {
    schema: Value,
    groups: Vec<usize>,
}

impl Dataset<'_> {
    /// The schema of all groups that can be read with the others; none if nothing is known.
    fn schema(&mut self, results: Vec<(usize, ScanResult)>) -> Result<Option<Value>> {
        let all: Vec<usize> = results.iter().map(|(group, _)| *group).collect();
        // A malformed file fails alone. But if a group was not read for another reason, nobody knows its
        // columns, and a schema without them would leave them out.
        let unknown = results.iter().filter_map(|(group, scan)| Some((*group, scan.as_ref().err()?)));
        if let Some((group, failure)) =
            unknown.filter(|(_, failure)| !failure.is_refusal()).min_by_key(|(group, _)| *group)
        {
            let message = format!(
                "the schema of the data set is not known yet, since {} could not be read: {}",
                self.jobs[group].name, failure.message
            );
            let failure = Failure { message, ..failure.clone() };
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
        // Those that most groups have come first; of as many, those of the first group.
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

    /// The schema that the reader finds in one group of each variant. Variants that contradict those of more
    /// groups are refused.
    fn merged(&mut self, variants: Vec<Variant>) -> Result<Option<Value>> {
        let first = |variant: &Variant| variant.groups[0];
        match self.scan_together(&variants.iter().map(first).collect::<Vec<_>>())? {
            Some(Ok(scan)) => return Ok(Some(scan.schema)),
            Some(Err(failure)) if failure.is_refusal() => {}
            // Not read, or not for a reason of their own.
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

    /// No schema: the groups fail for the scan's reason, if there is one.
    fn fail_all(&mut self, scan: Option<ScanResult>) -> Option<Value> {
        if let Some(Err(failure)) = scan {
            let groups = self.scans.iter().map(|(group, _)| *group);
            self.found.failures.extend(groups.map(|group| (group, failure.clone())));
        }
        None
    }

    /// A scan of several groups as of one input.
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

    /// The schema that most groups have; the others are refused.
    fn most_frequent(&mut self, variants: Vec<Variant>) -> Option<Value> {
        let mut variants = variants.into_iter();
        let most = variants.next()?.schema;
        for variant in variants {
            let difference = first_difference(&most, &variant.schema);
            for group in variant.groups {
                let mut error = Error::malformed(
                    "the schema is another than that of most files of the data set, and this format's reader takes none",
                );
                if let Some(of) = &self.jobs[group].request.input.file_group {
                    error = error.file(&of.files[0]);
                }
                if let Some((column, expected, found)) = &difference {
                    let text =
                        |of: &Option<String>| of.clone().unwrap_or_else(|| "no such column".to_owned());
                    error = error.column(column).expected(text(expected)).found(text(found));
                }
                self.found.failures.insert(group, Failure::of(&error));
            }
        }
        Some(most)
    }
}
