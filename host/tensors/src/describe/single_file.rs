//! A single-file diffusion model is a file that contains several models. The prefixes of the tensor
//! names distinguish these models.
//!
//! Source: `CHECKPOINT_KEY_NAMES` in diffusers' `loaders/single_file_utils.py`, and the names in
//! ComfyUI's files.

use serde::Serialize;
use tensorferry_sdk::{Catalog, element_count};

/// The models in a file.
#[derive(Debug, Serialize)]
pub struct SingleFile {
    /// The architecture family of the diffusion model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub family: Option<&'static str>,
    pub models: Vec<FileModel>,
}

/// A model in a single file.
#[derive(Debug, Serialize)]
pub struct FileModel {
    /// The role of the model in the file.
    pub role: &'static str,
    /// The prefix of the model's tensor names.
    pub prefix: &'static str,
    /// Number of elements in the model's tensors.
    pub parameters: u64,
}

/// The possible models in a file, each as a tensor name prefix and a role. Longer prefixes come
/// first.
const ROLES: [(&str, &str); 12] = [
    ("model.diffusion_model.", "diffusion model"),
    ("model_ema.", "averaged weights of the diffusion model"),
    ("first_stage_model.", "autoencoder"),
    ("vae.", "autoencoder"),
    ("cond_stage_model.", "text encoder"),
    ("conditioner.embedders.0.", "text encoder"),
    ("conditioner.embedders.1.", "second text encoder"),
    ("text_encoders.clip_l.", "text encoder CLIP-L"),
    ("text_encoders.clip_g.", "text encoder CLIP-G"),
    ("text_encoders.t5xxl.", "text encoder T5-XXL"),
    ("control_model.", "ControlNet"),
    ("safety_checker.", "safety checker"),
];
/// Prefix of the diffusion model's tensor names in a file with several models. If the diffusion
/// model has a separate file, its tensor names do not have this prefix.
const DIFFUSION: &str = "model.diffusion_model.";

/// Prefixes of tensor names that identify an architecture family. `*` stands for an optional
/// [`DIFFUSION`].
const FAMILIES: [(&str, &[&str]); 8] = [
    ("FLUX", &["*double_blocks.0.img_attn.", "*single_blocks.0."]),
    ("Stable Diffusion 3", &["*joint_blocks.0.context_block."]),
    ("Stable Cascade", &["*down_blocks.1.0.channelwise."]),
    ("Stable Diffusion XL", &["*input_blocks.", "conditioner.embedders.1."]),
    ("Stable Diffusion XL refiner", &["*input_blocks.", "conditioner.embedders.0.model."]),
    ("Stable Diffusion 2", &["*input_blocks.", "cond_stage_model.model."]),
    ("Stable Diffusion 1", &["*input_blocks.", "cond_stage_model.transformer."]),
    ("latent diffusion", &["*input_blocks.0.", "*middle_block.", "*output_blocks."]),
];

impl SingleFile {
    /// Recognizes the models in a catalog by tensor names that are typical of single-file models.
    pub(super) fn of(catalog: &Catalog) -> Option<Self> {
        let mut parameters = [0_u64; ROLES.len()];
        for tensor in catalog.tensors() {
            if let Some(role) = ROLES.iter().position(|(prefix, _)| tensor.name.starts_with(prefix)) {
                let count = element_count(&tensor.shape).unwrap_or(u64::MAX);
                parameters[role] = parameters[role].saturating_add(count);
            }
        }
        let has = |start: &str| catalog.tensors().iter().any(|tensor| tensor.name.starts_with(start));
        let is_there = |start: &&str| match start.strip_prefix('*') {
            Some(start) => has(start) || has(&format!("{DIFFUSION}{start}")),
            None => has(start),
        };
        let family = FAMILIES.iter().find(|(_, starts)| starts.iter().all(is_there));
        let found = ROLES.iter().zip(parameters).filter(|(_, parameters)| *parameters > 0);
        let models: Vec<FileModel> =
            found.map(|(&(prefix, role), parameters)| FileModel { role, prefix, parameters }).collect();
        // A file with only an autoencoder does not count, because it may be unrelated to diffusion.
        let is_one = family.is_some() || models.iter().any(|model| model.prefix == DIFFUSION);
        is_one.then(|| Self { family: family.map(|(family, _)| *family), models })
    }
}
