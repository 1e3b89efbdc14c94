//! Checks that options are passed to the correct side of a conversion. The reader and the writer
//! have separate options. If an option is passed to the wrong side, the error names the correct
//! flag, even if the two formats differ.

use crate::request::Request;
use tensorferry_core::formats::options::is_of_host;
use tensorferry_core::read::source::FileSource;
use tensorferry_sdk::{Description, Dtype, Error, OptionSpec, Result, Side};
use tensorferry_tensors::steps::dequantize::READER_OPTION;
use tensorferry_tensors::steps::model_config::ModelConfig;

/// Checks that no option of the writer was passed with `-i`, and no option of the reader with `-o`.
pub fn check_sides(request: &Request, input: &Description, output: &Description) -> Result<()> {
    let declares = |description: &Description, side: Side, key: &str| {
        description.options.iter().any(|option| option.side == side && option.key == key)
    };
    for (key, _) in &request.input.options {
        if !declares(input, Side::Reader, key) && declares(output, Side::Writer, key) {
            return Err(Error::usage(format!(
                "{key} is an output option of the format {}: pass -o {key}=...",
                output.id
            )));
        }
    }
    for (key, _) in &request.output.options {
        if !declares(output, Side::Writer, key) && declares(input, Side::Reader, key) {
            return Err(Error::usage(format!(
                "{key} is an input option of the format {}: pass -i {key}=...",
                input.id
            )));
        }
    }
    Ok(())
}

/// Returns the given options that a format's reader supports. The options are selected for each
/// model of the input, because the models' formats may differ.
#[must_use]
pub fn options_of(format: &Description, given: &[(String, String)]) -> Vec<(String, String)> {
    let has = |key: &str| {
        is_of_host(format, key) || format.options.iter().any(|o| o.side == Side::Reader && o.key == key)
    };
    given.iter().filter(|(key, _)| has(key)).cloned().collect()
}

/// Returns the options of a reader. These are the given options and, if a step dequantizes
/// (`asked`), the option that makes the reader decode its own quantized types.
pub(crate) fn with_dequantize(
    asked: Option<Option<Dtype>>,
    source: &FileSource,
    format: &Description,
    given: &[(String, String)],
) -> Result<Vec<(String, String)>> {
    let mut options = given.to_vec();
    let option = |spec: &&OptionSpec| spec.side == Side::Reader && spec.key == READER_OPTION;
    let (Some(to), Some(_)) = (asked, format.options.iter().find(option)) else { return Ok(options) };
    let to = match to {
        Some(to) => Some(to),
        None => ModelConfig::read(source)?.dtype(),
    };
    let word = to.unwrap_or(Dtype::F32).info().map_or("f32".to_owned(), |info| info.name().to_lowercase());
    match given.iter().find(|(key, _)| key == READER_OPTION) {
        Some((_, said)) if *said != word => {
            return Err(Error::usage(format!(
                "-i {READER_OPTION}={said} contradicts the step dequantize, which means {word}"
            )));
        }
        Some(_) => {}
        None => options.push((READER_OPTION.to_owned(), word)),
    }
    Ok(options)
}
