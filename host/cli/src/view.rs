//! `ferry view`: serves a page about an input to a browser on the same machine. The page contains
//! the input's structure, and requests the values of one tensor at a time.

use super::args::{Inspect, View};
use super::inspect::{InspectedModel, page_content, title};
use super::page::{Heats, compact};
use super::{losses, terminal};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use tensorferry::statistics::{StatisticsRequest, model_statistics};
use tensorferry::{Registry, Session};
use tensorferry_page::{PageRequest, PageResponse, Reach, Server, html};
use tensorferry_sdk::{Error, Purpose, Result};

pub(super) fn run(command: &View, registry: &Registry, session: &Session) -> Result<()> {
    if command.input == Path::new("-") {
        return Err(Error::usage("standard input cannot be browsed").hint("name a file or folder"));
    }
    let failed = |error: std::io::Error| Error::from(error).context("cannot listen on 127.0.0.1");
    // Binds the port before reading the input, so that a port that is in use is reported
    // immediately.
    let server = Server::bind(command.port).map_err(failed)?;
    let inspect = as_inspect(command);
    let (document, models) = session.install(|| {
        page_content(&inspect, &command.input, registry, session)?.document(&inspect, true, registry, session)
    })?;
    let losses: Vec<_> = models.iter().flat_map(|(_, seen)| seen.inspected.losses.iter().cloned()).collect();
    losses::report(&losses, &session.take_notes(), false);
    let page: Arc<str> =
        html(&format!("{}: ferry view", title(&inspect)), &document, Reach::ItsServer).into();
    drop(document);
    terminal::print(&format!("{}\n", server.address()))?;
    terminal::message("note", &"open this address in a browser on this machine; press Ctrl-C to stop");
    let values = Values { command: &inspect, models: &models, session, turn: Mutex::new(()) };
    let cancelled = session.cancel_flag();
    let answer = |request: &PageRequest| match &*request.path {
        "" => PageResponse::Html(page.clone()),
        "values" => values.answer(request),
        _ => PageResponse::NotFound,
    };
    server.serve(&|| cancelled.load(Ordering::Relaxed), &answer).map_err(failed)
}

/// Returns the arguments of the equivalent `ferry inspect` command.
fn as_inspect(command: &View) -> Inspect {
    Inspect {
        input: command.input.clone(),
        patterns: command.patterns.clone(),
        reader: command.reader.clone(),
        all: false,
        digest: None,
        stats: None,
        histogram: false,
        schema: false,
        html: None,
        force: false,
        json: false,
    }
}

/// Answers the page's requests for the values of tensors.
struct Values<'a> {
    command: &'a Inspect,
    models: &'a [(Option<String>, InspectedModel)],
    session: &'a Session,
    /// Locked while a tensor is read, because each read uses all threads and the whole memory
    /// budget.
    turn: Mutex<()>,
}

impl Values<'_> {
    fn answer(&self, request: &PageRequest) -> PageResponse {
        let place = request.number("model").zip(request.number("tensor"));
        let found = place.and_then(|(model, tensor)| {
            let (_, seen) = self.models.get(model)?;
            Some((seen, seen.inspected.catalog.tensors().get(tensor)?.name.as_str()))
        });
        let Some((seen, name)) = found else { return PageResponse::NotFound };
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let read = self.session.install(|| self.of(seen, name));
        // Discards the notes of the previous request, so that a response contains only notes about
        // its own tensor.
        drop(self.session.take_notes());
        match read {
            Ok(values) => PageResponse::Json(values.to_string()),
            Err(error) => PageResponse::Failed(json!({ "error": error.to_string() }).to_string()),
        }
    }

    /// Returns the statistics of a tensor, and its heat map if it is a matrix.
    fn of(&self, seen: &InspectedModel, name: &str) -> Result<Value> {
        let look = self.command.reader.look(Purpose::SHOW);
        let request = StatisticsRequest {
            input: &seen.inspected.input,
            options: look.options,
            part: look.part,
            patterns: &[globset::escape(name)],
            histograms: true,
        };
        let found = model_statistics(&request, self.session)?;
        let own = found.tensors.iter().find(|tensor| tensor.name == name);
        let whole = found.tensors.iter().find(|tensor| tensor.parts.iter().any(|part| part == name));
        let stats = match (own, whole) {
            (Some(own), _) => compact(own.json()),
            (None, Some(whole)) => json!({ "part_of": whole.name, "whole": compact(whole.json()) }),
            (None, None) => Value::Null,
        };
        let heat = Heats::open(&seen.inspected, look, self.session)?.of(name)?;
        Ok(json!({ "stats": stats, "heat": heat }))
    }
}
