//! A state file names the latest checkpoint of a folder. The file is named `checkpoint` and
//! contains a `CheckpointState` in protobuf's text form:
//!
//! ```text
//! model_checkpoint_path: "ckpt-2"                       the prefix of the latest checkpoint
//! all_model_checkpoint_paths: "ckpt-1"                  all kept checkpoints, oldest first
//! all_model_checkpoint_paths: "ckpt-2"
//! all_model_checkpoint_timestamps: 1795232038.761929    seconds since 1970, one per kept checkpoint
//! last_preserved_timestamp: 1795232037.7333348
//! ```
//! Relative prefixes are resolved against the folder of the state file.
//!
//! Source: `tensorflow/python/checkpoint/checkpoint_management.py`.

use crate::text;
use std::fmt::Write;
use tensorferry_proto::CheckpointState;
use tensorferry_sdk::{Limits, Result};

pub(crate) const STATE_FILE: &str = "checkpoint";

/// Parses a state file. Errors contain the name `file`.
pub(crate) fn parse(bytes: &[u8], file: &str, limits: &Limits) -> Result<CheckpointState> {
    text::parse(bytes, "tensorflow.CheckpointState", file, limits)
}

/// Returns the contents of a state file in TensorFlow's format.
pub(crate) fn render(state: &CheckpointState) -> String {
    let mut text = String::new();
    // Proto3 does not write fields with default values.
    if !state.model_checkpoint_path.is_empty() {
        push_text(&mut text, "model_checkpoint_path", &state.model_checkpoint_path);
    }
    for path in &state.all_model_checkpoint_paths {
        push_text(&mut text, "all_model_checkpoint_paths", path);
    }
    for &seconds in &state.all_model_checkpoint_timestamps {
        push_number(&mut text, "all_model_checkpoint_timestamps", seconds);
    }
    if state.last_preserved_timestamp.to_bits() != 0 {
        push_number(&mut text, "last_preserved_timestamp", state.last_preserved_timestamp);
    }
    text
}

fn push_text(text: &mut String, field: &str, value: &str) {
    text.push_str(field);
    text.push_str(": \"");
    for c in value.chars() {
        match c {
            '"' | '\'' | '\\' => text.extend(['\\', c]),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            // Writing to a string cannot fail.
            _ if c.is_ascii_control() => {
                let _ = write!(text, "\\{:03o}", u32::from(c));
            }
            _ => text.push(c),
        }
    }
    text.push_str("\"\n");
}

fn push_number(text: &mut String, field: &str, value: f64) {
    // As in Python, the result is the shortest decimal number that parses back to the same value.
    // Python and Rust both write infinity as `inf`.
    let number = if value.is_nan() { "nan".to_owned() } else { format!("{value:?}") };
    let _ = writeln!(text, "{field}: {number}");
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn what_tensorflow_wrote_is_written_again() {
        let written = "model_checkpoint_path: \"ckpt-2\"\n\
                       all_model_checkpoint_paths: \"ckpt-1\"\n\
                       all_model_checkpoint_paths: \"ckpt-2\"\n\
                       all_model_checkpoint_timestamps: 1795232038.761929\n\
                       all_model_checkpoint_timestamps: 1.0\n\
                       last_preserved_timestamp: 1795232037.7333348\n";
        let state = parse(written.as_bytes(), STATE_FILE, &Limits::default()).unwrap();
        assert_eq!(state.model_checkpoint_path, "ckpt-2");
        assert_eq!(render(&state), written);
        assert_eq!(render(&CheckpointState::default()), "");
    }

    #[test]
    fn any_path_and_any_time_come_back() {
        let state = CheckpointState {
            model_checkpoint_path: "a\"b\\c\n\t\r'\u{1}\u{7f}ü/😀".to_owned(),
            all_model_checkpoint_paths: vec![String::new()],
            all_model_checkpoint_timestamps: vec![0.0, -0.0, 1e300, 1e-7, f64::INFINITY, f64::NEG_INFINITY],
            last_preserved_timestamp: f64::MIN_POSITIVE,
        };
        let text = render(&state);
        assert!(text.starts_with(r#"model_checkpoint_path: "a\"b\\c\n\t\r\'\001\177ü/😀""#), "{text}");
        assert_eq!(parse(text.as_bytes(), STATE_FILE, &Limits::default()).unwrap(), state);
        let nan = CheckpointState { last_preserved_timestamp: f64::NAN, ..CheckpointState::default() };
        let nan = parse(render(&nan).as_bytes(), STATE_FILE, &Limits::default()).unwrap();
        assert!(nan.last_preserved_timestamp.is_nan());
    }

    #[test]
    fn what_is_no_state_file_is_refused() {
        for text in ["model_checkpoint_path: 1", "model_checkpoint_path: \"a", "{", "\u{0}"] {
            let error = parse(text.as_bytes(), "run/checkpoint", &Limits::default()).unwrap_err();
            assert!(error.to_string().contains("run/checkpoint"), "{error}");
        }
    }
}
