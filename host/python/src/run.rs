//! Runs of manifests. Processes of the program in the package run the jobs.

use crate::engine::Engine;
use crate::{objects, work};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use tensorferry::{Error, Registry, Result};
use tensorferry_run::manifest::{self, Mistake, Variables};
use tensorferry_run::{Budget, Event, EventListener, RunOptions, WorkerCommand, dry_run, report, run};

/// Arguments of a run.
struct RunArguments {
    manifest: PathBuf,
    variables: BTreeMap<String, String>,
    jobs: Option<usize>,
    fail_fast: bool,
    dry_run: bool,
    report: Option<PathBuf>,
}

impl<'py> FromPyObject<'_, 'py> for RunArguments {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let (manifest, variables, jobs, fail_fast, dry_run, report) = object.extract()?;
        Ok(Self { manifest, variables, jobs, fail_fast, dry_run, report })
    }
}

#[pymethods]
impl Engine {
    /// Runs the jobs of a manifest and returns the summary. A dry run returns the jobs that would
    /// run, with the reasons. `listen` is called with each event, on the calling thread.
    #[pyo3(signature = (how, listen))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        how: RunArguments,
        listen: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if listen.as_ref().is_some_and(|listen| !listen.bind(py).is_callable()) {
            return Err(PyTypeError::new_err("progress is not callable"));
        }
        let registry = self.for_a_call();
        let events = Events::default();
        let pass_on = listen.map(|listen| EventsOut { events: events.clone(), listen });
        let pass_on = pass_on.map(|out| Py::new(py, out)).transpose()?.map(Py::into_any);
        let outcome =
            work::run(py, registry.session(), pass_on.as_ref(), || self.do_jobs(&registry, &how, &events))?;
        objects::of_json(py, &outcome)
    }
}

impl Engine {
    fn do_jobs(&self, registry: &Registry, how: &RunArguments, events: &Events) -> Result<Value> {
        registry.check_any()?;
        let loaded = manifest::load(&how.manifest, &Variables::new(how.variables.clone()), registry)
            .map_err(|mistakes| of_mistakes(&how.manifest, &mistakes))?;
        let (session, table) = (registry.session(), &loaded.run);
        let number = |number: Option<u32>| number.and_then(|number| usize::try_from(number).ok());
        let memory = self.memory.or(table.memory.as_ref().map(|size| size.0)).unwrap_or(session.memory);
        let threads = number(table.threads).unwrap_or(session.threads);
        let rate = table.rate.as_ref().map(|size| size.0);
        let journal = table.journal.as_ref().map(PathBuf::from);
        let options = RunOptions {
            manifest: how.manifest.clone(),
            journal: journal.unwrap_or_else(|| RunOptions::journal_of(&how.manifest)),
            only: None,
            shard: None,
            explain: false,
            fail_fast: how.fail_fast || table.fail_fast.unwrap_or(false),
            budget: Budget::new(how.jobs.or(number(table.jobs)), threads, memory, rate),
            worker: self.worker(),
        };
        let cancelled = session.cancel_flag();
        if how.dry_run {
            let plan = dry_run(&loaded.jobs, registry, &options, events, &cancelled);
            if cancelled.load(Ordering::Relaxed) {
                return Err(Error::cancelled("the dry run was interrupted"));
            }
            return Ok(json!({ "plan": plan }));
        }
        let folder = how.report.clone().or(loaded.run.report.map(PathBuf::from));
        let folder = folder.map_or_else(|| options.report_folder(), Ok)?;
        let ended = run(&loaded.jobs, registry, &options, events, &cancelled)?;
        let page = report::write(&folder, &ended.summary, tensorferry_check::SCRIPT)?;
        let mut document = serde_json::to_value(&ended.summary).unwrap_or_default();
        document["report_page"] = json!(page);
        document["notes"] = json!([&*loaded.notes, &*ended.notes].concat());
        Ok(document)
    }

    /// Returns the command that starts a job's process, with the same plugins and limits.
    fn worker(&self) -> WorkerCommand {
        let folders = self.folders.iter().flat_map(|folder| {
            let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.clone());
            ["--plugin-dir".into(), folder.into_os_string()]
        });
        let limits = self.limits.iter();
        let limits =
            limits.flat_map(|(name, value)| [OsString::from("--limit"), format!("{name}={value}").into()]);
        WorkerCommand {
            program: self.program.clone(),
            arguments: folders.chain(limits).collect(),
            stores: self.stores.clone(),
        }
    }
}

fn of_mistakes(manifest: &Path, mistakes: &[Mistake]) -> Error {
    let told: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
    Error::usage(format!("the manifest has errors: {}", told.join("; "))).file(manifest.display().to_string())
}

/// The events that have not been passed to `listen` yet.
#[derive(Clone, Default)]
struct Events(std::sync::Arc<Mutex<Vec<Value>>>);

impl EventListener for Events {
    fn on_event(&self, event: &Event<'_>) {
        let event = serde_json::to_value(event).unwrap_or_default();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }
}

/// Passes the events to `listen` each time that `work` reports progress.
#[pyclass(frozen)]
struct EventsOut {
    events: Events,
    listen: Py<PyAny>,
}

#[pymethods]
impl EventsOut {
    fn __call__(&self, py: Python<'_>, _done: u64, _of: u64, _stage: &str) -> PyResult<()> {
        let events = std::mem::take(&mut *self.events.0.lock().unwrap_or_else(PoisonError::into_inner));
        events.iter().try_for_each(|event| self.listen.call1(py, (objects::of_json(py, event)?,)).map(drop))
    }
}
