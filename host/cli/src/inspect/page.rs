//! `ferry inspect --html`: writes an HTML page that shows an input.

use super::{InspectedModel, description, each_seen, hex, is_folder, records};
use crate::args::Inspect;
use crate::page::{Heats, ModelPage, PageFile, models};
use crate::{losses, pipes, terminal};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use tensorferry::formats::holds_records;
use tensorferry::inspect::Inspected;
use tensorferry::{Registry, Session, places};

use tensorferry_sdk::{ErrorKind, Purpose, Result};

/// The content of a page.
pub(crate) enum PageContent {
    /// The models of the input. If the input is a folder with several models, each model is stored
    /// with the name of its subfolder.
    Models(Vec<(Option<String>, InspectedModel)>),
    /// The JSON document of a dataset whose records have already been read.
    Records(Value),
}

/// Reads an input for display on a page.
pub(crate) fn page_content(
    command: &Inspect,
    input: &Path,
    registry: &Registry,
    session: &Session,
) -> Result<PageContent> {
    let look = command.reader.look(Purpose::SHOW);
    let found = match registry.find(input, look.choice()) {
        Err(error) if error.kind() == ErrorKind::Unsupported && is_folder(input, session) => {
            let models = registry.inspect_below(input, look)?;
            if models.is_empty() {
                return Err(error);
            }
            let models = each_seen(command, models, session)?;
            return Ok(PageContent::Models(
                models.into_iter().map(|(folder, seen)| (Some(folder), seen)).collect(),
            ));
        }
        found => found?,
    };
    if holds_records(&found.format.description) {
        return records::page(command, &title(command), &found, session).map(PageContent::Records);
    }
    let seen = InspectedModel::new(command, registry.inspect_found(&found, look)?, session)?;
    Ok(PageContent::Models(vec![(None, seen)]))
}

/// Returns the title of the page: the last component of the input's path.
pub(crate) fn title(command: &Inspect) -> String {
    let name = match command.input.file_name() {
        _ if command.input == Path::new("-") => return "standard input".to_owned(),
        Some(name) => name.to_string_lossy().into_owned(),
        None => std::path::absolute(&command.input)
            .ok()
            .and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
            .unwrap_or_default(),
    };
    if name.is_empty() { places::shown(&command.input) } else { name }
}

impl PageContent {
    /// Returns the JSON document of the page. If `is_live` is true, the page requests values from a
    /// server.
    pub(crate) fn document(
        self,
        command: &Inspect,
        is_live: bool,
        registry: &Registry,
        session: &Session,
    ) -> Result<(Value, Vec<(Option<String>, InspectedModel)>)> {
        let all = match self {
            Self::Records(document) => return Ok((document, Vec::new())),
            Self::Models(all) => all,
        };
        let shown = all.iter().map(|(folder, seen)| {
            let InspectedModel { inspected, model, hashed, statistics } = seen;
            let heats = match statistics {
                Some(statistics) => {
                    let look = command.reader.look(Purpose::SHOW);
                    Heats::open(inspected, look, session)?.chosen(&inspected.catalog, statistics)?
                }
                None => BTreeMap::new(),
            };
            Ok(ModelPage {
                folder: folder.as_deref(),
                inspected,
                description: model,
                facts: description::lines(model),
                statistics: statistics.as_ref(),
                digests: hashed
                    .as_ref()
                    .map(|(_, digests)| digests.iter().map(|digest| hex(digest)).collect()),
                heats,
            })
        });
        let shown = shown.collect::<Result<Vec<_>>>()?;
        let document = models(&title(command), &shown, is_live, registry);
        drop(shown);
        Ok((document, all))
    }
}

/// Reads the input and writes its HTML page.
pub(super) fn write(command: &Inspect, output: &Path, registry: &Registry, session: &Session) -> Result<()> {
    let page = PageFile::at(output, command.force)?;
    let piped = pipes::input(&command.input)?;
    let page_content = page_content(command, &piped.path, registry, session)?;
    if let PageContent::Models(models) = &page_content {
        let losses = models.iter().flat_map(|(_, seen)| seen.inspected.losses.iter().cloned());
        losses::report(&losses.collect::<Vec<_>>(), &session.take_notes(), false);
    }
    let (document, models) = page_content.document(command, false, registry, session)?;
    let bytes = page.write(&format!("{}: ferry inspect", title(command)), &document)?;
    terminal::print(&format!("wrote {}: {}\n", terminal::shown(output), terminal::bytes(bytes)))?;
    models
        .into_iter()
        .try_for_each(|(_, InspectedModel { inspected: Inspected { input, .. }, .. })| input.close())
}
