//! The metadata key `general.file_type` identifies the mix of types that llama.cpp used to quantize
//! a file.
//!
//! Source: `llama_ftype` in `include/llama.h`, and `llama_model_ftype_name` in
//! `src/llama-model-loader.cpp`.

use serde::Serialize;

/// The mix of types that the metadata of a file declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct FileType {
    /// The number in the file's metadata.
    pub number: u64,
    /// The name of the mix in `llama-quantize`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<&'static str>,
}

const NAMES: [(u64, &str); 38] = [
    (0, "F32"),
    (1, "F16"),
    (2, "Q4_0"),
    (3, "Q4_1"),
    (7, "Q8_0"),
    (8, "Q5_0"),
    (9, "Q5_1"),
    (10, "Q2_K"),
    (11, "Q3_K_S"),
    (12, "Q3_K_M"),
    (13, "Q3_K_L"),
    (14, "Q4_K_S"),
    (15, "Q4_K_M"),
    (16, "Q5_K_S"),
    (17, "Q5_K_M"),
    (18, "Q6_K"),
    (19, "IQ2_XXS"),
    (20, "IQ2_XS"),
    (21, "Q2_K_S"),
    (22, "IQ3_XS"),
    (23, "IQ3_XXS"),
    (24, "IQ1_S"),
    (25, "IQ4_NL"),
    (26, "IQ3_S"),
    (27, "IQ3_M"),
    (28, "IQ2_S"),
    (29, "IQ2_M"),
    (30, "IQ4_XS"),
    (31, "IQ1_M"),
    (32, "BF16"),
    (33, "Q4_0_4_4"),
    (34, "Q4_0_4_8"),
    (35, "Q4_0_8_8"),
    (36, "TQ1_0"),
    (37, "TQ2_0"),
    (38, "MXFP4"),
    (39, "NVFP4"),
    (40, "Q1_0"),
];

impl FileType {
    #[must_use]
    pub fn of(number: u64) -> Self {
        let name = NAMES.iter().find(|(known, _)| *known == number).map(|(_, name)| *name);
        Self { number, name }
    }
}
