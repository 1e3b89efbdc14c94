//! Opening the models of an input: one, or of a folder also those in its sub-folders, each of which is
//! converted in place.

use crate::bridge::{
    self,
    steps::{Divided, Made},
};
use crate::context::session::Session;
use crate::convert::Request;
use crate::convert::sides::{check_sides, options_of};
use crate::convert::weights::{MOST_FOLDERS, Weights};
use crate::formats::probe::probe;
use crate::formats::registry::{RegisteredFormat, Registry};
use crate::read::context::{ReadContext, purpose};
use crate::read::input;
use crate::read::model::Model;
use crate::read::source::FileSource;
use crate::write::target::Resolved;
use std::path::Path;
use tensorferry_sdk::{
    Capabilities, Context, Entry, Error, ErrorKind, Options, Result, Side, Source, Target,
};

/// Reads the input as the format that probing found, and where both sides are folders, the models of its
/// sub-folders; there is at least one.
///
/// # Errors
/// Whatever is wrong with one of them.
pub fn read<'a>(
    source: &FileSource,
    probed: Result<&'a RegisteredFormat>,
    registry: &'a Registry,
    target: &Resolved<'_>,
    request: &Request,
    session: &'a Session,
) -> Result<Vec<Model<'a>>> {
    let reading = Reading { registry, target, request, session };
    let root = source.folder().to_owned();
    let may_hold_more = *source.entry() == Entry::Folder && target.target == Target::Folder;
    let mut models = Vec::new();
    let nothing_here = match probed {
        Ok(format) => {
            check_sides(request, &format.description, &target.format.description)?;
            models.push(reading.read(String::new(), source, format, &request.reader_options)?);
            None
        }
        Err(error) if may_hold_more && error.kind() == ErrorKind::Unsupported => Some(error),
        Err(error) => return Err(error),
    };
    if may_hold_more {
        reading.read_below(&root, &mut models)?;
    }
    match nothing_here {
        Some(error) if models.is_empty() => Err(error),
        _ => Ok(models),
    }
}

/// Reads an input of records as a model: what becomes of its records are its tensors.
///
/// # Errors
/// Whatever is wrong with it.
pub fn of_records<'a>(
    source: &FileSource,
    format: &'a RegisteredFormat,
    divided: &Divided<Made>,
    target: &Resolved<'_>,
    request: &Request,
    session: &'a Session,
) -> Result<Model<'a>> {
    let description = &target.format.description;
    check_sides(request, &format.description, description)?;
    // Its writer would say so too, after all records have been read.
    Options::check(&description.options, Side::Writer, &request.writer_options)?;
    let context = ReadContext::new(session, purpose(&format.description, description))
        .with_new_output(target.is_new_folder());
    let wanted = bridge::Wanted {
        options: &request.reader_options,
        divided,
        keeps_metadata: description.capabilities.has(Capabilities::METADATA),
        spill: &target.spill(),
    };
    let input = bridge::read(source, format, wanted, &context, session)?;
    Ok(Model { folder: String::new(), input, context })
}

struct Reading<'a, 'b> {
    registry: &'a Registry,
    target: &'b Resolved<'b>,
    request: &'b Request,
    session: &'a Session,
}

impl<'a> Reading<'a, '_> {
    fn read(
        &self,
        folder: String,
        source: &FileSource,
        format: &'a RegisteredFormat,
        options: &[(String, String)],
    ) -> Result<Model<'a>> {
        let context =
            ReadContext::new(self.session, purpose(&format.description, &self.target.format.description))
                .with_new_output(self.target.is_new_folder());
        let input = input::read(source, format, options, &context)?;
        Ok(Model { folder, input, context })
    }

    /// The models of sub-folders. A folder that an outer model has read from is a part of that one.
    fn read_below(&self, root: &Path, models: &mut Vec<Model<'a>>) -> Result<()> {
        let weights = Weights::of(self.registry)?;
        let mut open = sub_folders(root, "")?;
        while let Some(folder) = open.pop() {
            self.session.check_cancelled()?;
            let names: Vec<String> = FileSource::at(root.join(&folder), Entry::Folder).list("")?;
            let is_read = |name: &String| models.iter().any(|m| m.has_read(&format!("{folder}/{name}")));
            if names.iter().any(is_read) {
                continue;
            }
            open.extend(sub_folders(root, &folder)?);
            if !names.iter().any(|name| weights.is_match(name)) {
                continue;
            }
            let source = FileSource::at(root.join(&folder), Entry::Folder);
            match probe(self.registry, &source, None, self.session) {
                Ok(format) => {
                    let options = options_of(&format.description, &self.request.reader_options);
                    let model = self.read(folder.clone(), &source, format, &options);
                    models
                        .push(model.map_err(|error| error.context(format!("in the sub-folder {folder:?}")))?);
                }
                // Its files are listed as what was not carried.
                Err(error) if error.kind() == ErrorKind::Unsupported => {}
                Err(error) => return Err(error.context(format!("in the sub-folder {folder:?}"))),
            }
        }
        models.sort_by(|a, b| a.folder.cmp(&b.folder));
        Ok(())
    }
}

/// The folders in a folder of the input, relative to `root`; hidden ones, links, and those too deep
/// are not entered.
fn sub_folders(root: &Path, folder: &str) -> Result<Vec<String>> {
    let path = root.join(folder);
    let failed = |e: std::io::Error| Error::from(e).file(path.display().to_string());
    if folder.split('/').count() > MOST_FOLDERS {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let is_folder = entry.file_type().map_err(failed)?.is_dir();
        if let Some(name) = entry.file_name().to_str().filter(|name| is_folder && !name.starts_with('.')) {
            found.push(if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") });
        }
    }
    // The last one is taken first.
    found.sort_by(|a, b| b.cmp(a));
    Ok(found)
}
