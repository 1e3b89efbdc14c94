//! A spec is a step as written by the user, before the step's name and keys are checked:
//! `NAME[:ARG][,KEY=VALUE]...`.
//!
//! A spec is one CSV record, as defined in RFC 4180. A field that contains a comma or a quote is
//! enclosed in quotes, and quotes inside the field are doubled. The first field is split at its
//! first colon, and the other fields are split at their first equals sign:
//!
//! ```text
//! rename:^bert/(.*)$,to=$1
//! "rename:^layer_(\d{1,2})$",to=layers.$1
//! set_metadata:title,"to=a ""small"" model, trained"
//! @my-recipe.toml,prefix=net
//! ```
//!
//! In a manifest, a step is either such a string or a table: `{ step = "rename", arg =
//! "^bert/(.*)$", to = "$1" }`. In a table, the value of a key may be a list (`where = ["*.weight",
//! "*.bias"]`), a number or a boolean.

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use std::fmt;
use tensorferry_sdk::{Error, Result};

/// A step as written by the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// The name of a step or recipe, or `@` followed by the path of a recipe file.
    pub name: String,
    /// The argument after the colon.
    pub argument: Option<Field>,
    /// The keys and values, in order. A key may occur several times.
    pub options: Vec<(String, Field)>,
}

/// A value in a spec, and the position of the value.
#[derive(Debug, Clone, Eq)]
pub struct Field {
    /// The value, without quotes.
    pub text: String,
    /// The 1-based column at which the field begins; `None` for a value from a table.
    pub column: Option<usize>,
}

impl PartialEq for Field {
    /// Compares only the text of two values, because the position of a value does not affect its
    /// meaning.
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Field {
    /// Creates a value without a position.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), column: None }
    }

    /// Parses the value as a number.
    pub fn number<T: std::str::FromStr>(&self) -> Result<T> {
        self.text.parse().map_err(|_| self.error(format!("expected a number, found {:?}", self.text)))
    }

    /// Parses the value as numbers separated by `x`, spaces, or semicolons.
    pub fn numbers(&self) -> Result<Vec<u64>> {
        let words = self.text.split(['x', ' ', ';']).filter(|word| !word.is_empty());
        let numbers: Option<Vec<u64>> = words.map(|word| word.parse().ok()).collect();
        numbers.ok_or_else(|| self.error(format!("expected numbers such as 8x4, found {:?}", self.text)))
    }

    /// Returns a usage error about this value.
    #[must_use]
    pub fn error(&self, message: impl fmt::Display) -> Error {
        at(self.column, message)
    }
}

fn at(column: Option<usize>, message: impl fmt::Display) -> Error {
    match column {
        Some(column) => Error::usage(format!("column {column}: {message}")),
        None => Error::usage(message.to_string()),
    }
}

impl Spec {
    /// Creates a spec that has only a name.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), argument: None, options: Vec::new() }
    }

    /// Sets the argument.
    #[must_use]
    pub fn argument(mut self, text: impl Into<String>) -> Self {
        self.argument = Some(Field::new(text));
        self
    }

    /// Adds a key.
    #[must_use]
    pub fn option(mut self, key: &str, text: impl Into<String>) -> Self {
        self.options.push((key.to_owned(), Field::new(text)));
        self
    }

    /// Parses a spec. Errors contain the column in the text.
    pub fn parse(text: &str) -> Result<Self> {
        let mut fields = fields(text)?.into_iter();
        let first = fields.next().filter(|field| !field.text.is_empty());
        let first = first.ok_or_else(|| at(Some(1), "expected a step's name"))?;
        let mut spec = match first.text.split_once(':').filter(|_| !first.text.starts_with('@')) {
            Some((name, argument)) => {
                let argument = Field { text: argument.to_owned(), column: first.column };
                Self { argument: Some(argument), ..Self::new(name) }
            }
            None => Self::new(first.text),
        };
        for field in fields {
            let split = field.text.split_once('=').filter(|(key, _)| !key.is_empty());
            let (key, value) = split.ok_or_else(|| {
                field.error(format!(
                    "expected KEY=VALUE, found {:?}; quote a field that contains a comma",
                    field.text
                ))
            })?;
            spec.options.push((key.to_owned(), Field { text: value.to_owned(), column: field.column }));
        }
        Ok(spec)
    }
}

/// Splits a CSV record into its fields.
fn fields(text: &str) -> Result<Vec<Field>> {
    let mut fields = Vec::new();
    let mut chars = (1..).zip(text.chars()).peekable();
    loop {
        let column = chars.peek().map_or(text.chars().count() + 1, |(column, _)| *column);
        let mut field = String::new();
        let quoted = chars.next_if(|(_, c)| *c == '"').is_some();
        if quoted {
            loop {
                match chars.next() {
                    Some((_, '"')) if chars.next_if(|(_, c)| *c == '"').is_none() => break,
                    Some((_, c)) => field.push(c),
                    None => return Err(at(Some(column), "this quote is not closed")),
                }
            }
        } else {
            while let Some((at_column, c)) = chars.next_if(|(_, c)| *c != ',') {
                if c == '"' {
                    let why = "a quote inside a field: quote the whole field, and double the quotes in it";
                    return Err(at(Some(at_column), why));
                }
                field.push(c);
            }
        }
        fields.push(Field { text: field, column: Some(column) });
        match chars.next() {
            None => return Ok(fields),
            Some((_, ',')) => {}
            Some((column, c)) => {
                return Err(at(Some(column), format!("expected a comma after a closing quote, found {c:?}")));
            }
        }
    }
}

impl fmt::Display for Spec {
    /// Writes the spec in the form that [`Spec::parse`] accepts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |field: String| {
            if field.contains([',', '"']) { format!("\"{}\"", field.replace('"', "\"\"")) } else { field }
        };
        let first = match &self.argument {
            Some(argument) => format!("{}:{}", self.name, argument.text),
            None => self.name.clone(),
        };
        f.write_str(&quoted(first))?;
        self.options
            .iter()
            .try_for_each(|(key, value)| write!(f, ",{}", quoted(format!("{key}={}", value.text))))
    }
}

impl Serialize for Spec {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Spec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_any(SpecVisitor)
    }
}

struct SpecVisitor;

impl<'de> Visitor<'de> for SpecVisitor {
    type Value = Spec;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a step: a string such as \"rename:^a,to=b\", or a table such as { step = \"rename\", arg = \"^a\", to = \"b\" }")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> std::result::Result<Spec, E> {
        Spec::parse(text).map_err(|error| E::custom(error.message()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Spec, A::Error> {
        let mut spec = Spec::new("");
        while let Some((key, values)) = map.next_entry::<String, SpecValues>()? {
            let values = values.texts();
            match (&*key, &*values) {
                ("step", [name]) if spec.name.is_empty() => spec.name.clone_from(name),
                ("arg", [text]) if spec.argument.is_none() => spec.argument = Some(Field::new(text)),
                ("step" | "arg", _) => {
                    return Err(A::Error::custom(format!("{key:?} must be a single string")));
                }
                _ => spec.options.extend(values.into_iter().map(|value| (key.clone(), Field::new(value)))),
            }
        }
        if spec.name.is_empty() {
            return Err(A::Error::missing_field("step"));
        }
        Ok(spec)
    }
}

/// A value in a table of a manifest.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a string, a number, a boolean, or a list of these")]
enum SpecValue {
    Text(String),
    Truth(bool),
    Whole(i64),
    Large(u64),
    Number(f64),
}

/// One value or a list of values in a table.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a string, a number, a boolean, or a list of these")]
enum SpecValues {
    One(SpecValue),
    List(Vec<SpecValue>),
}

impl SpecValues {
    fn texts(self) -> Vec<String> {
        let values = match self {
            Self::One(value) => vec![value],
            Self::List(values) => values,
        };
        let text = |value| match value {
            SpecValue::Text(text) => text,
            SpecValue::Truth(truth) => truth.to_string(),
            SpecValue::Whole(number) => number.to_string(),
            SpecValue::Large(number) => number.to_string(),
            SpecValue::Number(number) => number.to_string(),
        };
        values.into_iter().map(text).collect()
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fields_are_those_of_csv() {
        let spec = Spec::parse(r#""rename:^layer_(\d{1,2})""$",to=layers.$1,where=*.weight"#).unwrap();
        let expected = Spec::new("rename").argument(r#"^layer_(\d{1,2})"$"#);
        assert_eq!(spec, expected.option("to", "layers.$1").option("where", "*.weight"));
        assert_eq!(spec.options[0].1.column, Some(30));
        assert_eq!(Spec::parse("select").unwrap(), Spec::new("select"));
        assert_eq!(Spec::parse("rename:,to=").unwrap(), Spec::new("rename").argument("").option("to", ""));
        assert_eq!(Spec::parse("@c:/x.toml").unwrap(), Spec::new("@c:/x.toml"));
        assert_eq!(Spec::parse("a:b:c,d=e=f").unwrap(), Spec::new("a").argument("b:c").option("d", "e=f"));
    }

    #[test]
    fn mistakes_are_placed() {
        for (text, column) in [
            ("", 1),
            (",to=x", 1),
            ("rename:a{1,2}", 12),
            ("rename:a,=x", 10),
            ("rename:a,", 10),
            ("rename:a,to=\"x,y\"", 13),
            ("rename:a,\"to=x", 10),
            ("\"rename:a\"x", 11),
        ] {
            let error = Spec::parse(text).unwrap_err().to_string();
            assert!(error.contains(&format!("column {column}: ")), "{text}: {error}");
        }
    }

    #[test]
    fn manifests_hold_texts_and_tables() {
        let read = |json: &str| serde_json::from_str::<Spec>(json);
        assert_eq!(read(r#""rename:a,to=b""#).unwrap(), Spec::parse("rename:a,to=b").unwrap());
        let table =
            r#"{"to": "b", "step": "rename", "arg": "a", "where": ["x", "y"], "rank": 2, "strict": true}"#;
        let spec = read(table).unwrap();
        assert_eq!(spec.to_string(), "rename:a,to=b,where=x,where=y,rank=2,strict=true");
        assert_eq!(serde_json::to_string(&spec).unwrap(), format!("\"{spec}\""));
        for wrong in ["{}", "3", r#"{"step": ["a", "b"]}"#, r#"{"step": "a", "x": [["y"]]}"#, "\"a,b\""] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn a_spec_reads_as_it_was_written(
            name in "[a-z_-]{1,8}",
            argument in proptest::option::of(".{0,12}"),
            options in proptest::collection::vec(("[a-z_]{1,5}", ".{0,12}"), 0..4),
        ) {
            let options = options.into_iter().map(|(key, text)| (key, Field::new(text))).collect();
            let spec = Spec { name, argument: argument.map(Field::new), options };
            prop_assert_eq!(Spec::parse(&spec.to_string()).unwrap(), spec);
        }

        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = Spec::parse(&text);
        }
    }
}
