//! A list of names in a message.

/// How many names a message has.
const MOST: usize = 20;

/// The first of these names, quoted, and how many more there are.
pub(crate) fn listed(names: &[impl AsRef<str>]) -> String {
    let mut texts: Vec<String> = names.iter().take(MOST).map(|name| format!("{:?}", name.as_ref())).collect();
    if names.len() > MOST {
        texts.push(format!("and {} more", names.len() - MOST));
    }
    texts.join(", ")
}
