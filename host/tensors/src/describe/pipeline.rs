//! A diffusers pipeline is a folder with several models, each in a separate subfolder, and an index
//! of these models.

use super::folder::{self, text};
use serde::Serialize;
use serde_json::Value;
use tensorferry_core::read::source::FileSource;
use tensorferry_sdk::Source;

/// The file that lists the parts of a pipeline.
const INDEX: &str = "model_index.json";

#[derive(Debug, Serialize)]
pub struct Pipeline {
    pub class: String,
    /// The library that wrote the pipeline, and the version of that library.
    pub library: String,
    /// The parts of the pipeline, sorted by name.
    pub components: Vec<Component>,
}

/// A part of a pipeline.
#[derive(Debug, Serialize)]
pub struct Component {
    /// The name of the part, which is also the name of its folder.
    pub name: String,
    pub class: String,
    /// The library that defines the part's class.
    pub library: String,
    /// Whether the part's folder exists.
    pub is_there: bool,
}

impl Pipeline {
    /// Returns the pipeline that a folder's index describes.
    #[must_use]
    pub fn of(source: &FileSource) -> Option<Self> {
        let json = folder::json(source, INDEX)?;
        let class = text(&json, "_class_name")?.to_owned();
        let version = text(&json, "_diffusers_version");
        let folders = source.in_folder("").folders("").unwrap_or_default();
        let component = |(name, declared): (&String, &Value)| {
            let [library, class] = declared.as_array()?.as_slice() else { return None };
            Some(Component {
                name: name.clone(),
                class: class.as_str()?.to_owned(),
                library: library.as_str()?.to_owned(),
                is_there: folders.contains(name),
            })
        };
        Some(Self {
            class,
            library: version.map_or("diffusers".to_owned(), |version| format!("diffusers {version}")),
            components: json.as_object()?.iter().filter_map(component).collect(),
        })
    }
}
