//! A list of names in a message.

/// How many names a message has.
const MOST: usize = 20;

/// The first of these names, quoted, and how many more there are.
pub(crate) fn listed(names: &[impl AsRef<str>]) -> String {
    first_of(names, |name| format!("{:?}", name.as_ref()), ", ")
}

/// The first of these sentences, and how many more there are.
pub(crate) fn sentences(texts: &[String]) -> String {
    first_of(texts, String::clone, "; ")
}

fn first_of<T>(items: &[T], text: impl Fn(&T) -> String, between: &str) -> String {
    let mut texts: Vec<String> = items.iter().take(MOST).map(text).collect();
    if items.len() > MOST {
        texts.push(format!("and {} more", items.len() - MOST));
    }
    texts.join(between)
}
