//! The engine of the Python package: the usable formats with their threads, memory and limits.

use crate::errors::OrRaise;
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use tensorferry::{Error, Limits, PluginFolder, PluginSearch, Registry, Session};

/// The formats and the budget of a process.
#[pyclass(frozen, module = "tensorferry._native")]
pub(crate) struct Engine {
    registry: Registry,
    /// The path of the program in the package. Processes of this program probe new libraries, and
    /// run the jobs of a manifest.
    pub(crate) program: PathBuf,
    /// Additional plugin folders, which are also passed to the processes of a run.
    pub(crate) folders: Vec<PathBuf>,
    /// Limits that the user set, which are also passed to the processes of a run.
    pub(crate) limits: BTreeMap<String, u64>,
    /// The memory budget that the user set.
    pub(crate) memory: Option<u64>,
    /// Settings of object stores, each `KEY=VALUE`.
    pub(crate) stores: Vec<String>,
}

#[pymethods]
impl Engine {
    /// Creates an engine. `own` is the package's plugin folder, which is trusted like the package
    /// itself; `folders` are additional plugin folders. Descriptions of the libraries are cached in
    /// `cache`.
    #[new]
    #[pyo3(signature = (program, own, folders, cache, threads, memory, limits, stores))]
    fn new(
        py: Python<'_>,
        program: PathBuf,
        own: PathBuf,
        folders: Vec<PathBuf>,
        cache: Option<PathBuf>,
        threads: Option<usize>,
        memory: Option<u64>,
        limits: BTreeMap<String, u64>,
        stores: Vec<String>,
    ) -> PyResult<Self> {
        let usual = Session::default();
        let mut session = Session::new(threads.unwrap_or(usual.threads), memory.unwrap_or(usual.memory));
        session.limits = limits_of(&limits, session.memory).or_raise(py)?;
        session.remote = Some(tensorferry::remote::connect(&stores, &session).or_raise(py)?);
        let registry = py.detach(|| {
            let others = folders.iter().map(PluginFolder::new);
            let own = PluginFolder::new(own).built_in().trusted();
            let search = PluginSearch::new(others.chain([own])).scan_with(&program, ["scan-plugins"]);
            let search = cache.into_iter().fold(search, PluginSearch::cache);
            Registry::search(&search).with_session(session)
        });
        Ok(Self { registry, program, folders, limits, memory, stores })
    }

    /// Unpickles to the engine of the current process. Libraries such as dill pickle the engine
    /// together with functions that refer to it.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, ())> {
        Ok((py.import("tensorferry._engine")?.getattr("engine")?, ()))
    }

    /// Returns warnings about the plugins that were found.
    fn notes(&self) -> Vec<String> {
        let refused = self.registry.libraries().iter();
        let refused = refused
            .filter_map(|l| l.outcome.as_ref().err().map(|why| format!("{}: {why}", l.path.display())));
        refused.chain(self.registry.notes().iter().cloned()).collect()
    }
}

impl Engine {
    /// Returns the formats with a new session for one call.
    pub(crate) fn for_a_call(&self) -> Registry {
        self.for_input(false)
    }

    /// Returns the formats with a new session that follows the input's links if `follow_links` is
    /// set.
    pub(crate) fn for_input(&self, follow_links: bool) -> Registry {
        let mut session = self.registry.session().with_own_progress();
        session.links.follow = follow_links;
        self.registry.clone().with_session(Arc::new(session))
    }
}

/// The maximum memory of a pickle value, in bytes. The command-line program uses the same constant.
const BYTES_OF_A_NODE: u64 = 320;
/// The lowest default for the limit `nodes`, which applies even if the memory budget is small.
const MIN_NODES: u64 = (128 << 20) / BYTES_OF_A_NODE;

fn limits_of(given: &BTreeMap<String, u64>, memory: u64) -> tensorferry::Result<Limits> {
    let mut limits = Limits::default();
    limits.memory_bytes = memory;
    limits.nodes = limits.nodes.min((memory / BYTES_OF_A_NODE).max(MIN_NODES));
    for (name, value) in given {
        if !limits.set(name, *value) {
            let known = Limits::NAMES.join(", ");
            return Err(
                Error::usage(format!("unknown limit {name:?}")).hint(format!("the limits are {known}"))
            );
        }
    }
    Ok(limits)
}
