//! Formats lists of names for messages.

/// Maximum number of names in a message.
const MAX_LISTED: usize = 20;

/// Returns the first few names in quotation marks, and the number of omitted names.
pub(crate) fn listed(names: &[impl AsRef<str>]) -> String {
    first_of(names, |name| format!("{:?}", name.as_ref()), ", ")
}

/// Returns the first few sentences, and the number of omitted sentences.
pub(crate) fn sentences(texts: &[String]) -> String {
    first_of(texts, String::clone, "; ")
}

fn first_of<T>(items: &[T], text: impl Fn(&T) -> String, between: &str) -> String {
    let mut texts: Vec<String> = items.iter().take(MAX_LISTED).map(text).collect();
    if items.len() > MAX_LISTED {
        texts.push(format!("and {} more", items.len() - MAX_LISTED));
    }
    texts.join(between)
}
