//! Builds the page as one HTML file. The page's content security policy allows only the embedded
//! script and style, which it identifies by their digests. The page treats all content of an input
//! as data, never as HTML or script.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sha2::{Digest, Sha256};

const TEMPLATE: &str = include_str!("../assets/page.html");
const STYLE: &str = include_str!("../assets/page.css");
/// The script's source files, in the order of their dependencies.
const SCRIPTS: [&str; 13] = [
    include_str!("../assets/js/data.js"),
    include_str!("../assets/js/modules.js"),
    include_str!("../assets/js/list.js"),
    include_str!("../assets/js/facts.js"),
    include_str!("../assets/js/charts.js"),
    include_str!("../assets/js/tree.js"),
    include_str!("../assets/js/treemap.js"),
    include_str!("../assets/js/detail.js"),
    include_str!("../assets/js/layers.js"),
    include_str!("../assets/js/model.js"),
    include_str!("../assets/js/records.js"),
    include_str!("../assets/js/diff.js"),
    include_str!("../assets/js/main.js"),
];

/// The requests that a page is allowed to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// The page may not send any requests, because it is a file.
    Nothing,
    /// The page may request data from the server that sent it.
    ItsServer,
}

/// Returns the page for a document. The document's `kind` is `model`, `records` or `diff`, and the
/// script in `assets/js` draws it.
#[must_use]
pub fn html(title: &str, document: &Value, reach: Reach) -> String {
    let script = script();
    let pieces = [
        ("policy", policy(&script, reach)),
        ("title", escaped(title)),
        ("style", STYLE.to_owned()),
        ("data", inert(document)),
        ("script", script),
    ];
    // The template is split and filled part by part. Inserted text that looks like a placeholder is
    // therefore not replaced.
    let mut page =
        String::with_capacity(TEMPLATE.len() + pieces.iter().map(|(_, text)| text.len()).sum::<usize>());
    let mut rest = TEMPLATE;
    for (name, text) in &pieces {
        let place = format!("{{{name}}}");
        if let Some((before, after)) = rest.split_once(&place) {
            page.push_str(before);
            page.push_str(text);
            rest = after;
        }
    }
    page + rest
}

/// Returns the content security policy, for the page's `meta` element and the server's header.
pub(crate) fn policy(script: &str, reach: Reach) -> String {
    let digest = |text: &str| STANDARD.encode(Sha256::digest(text.as_bytes()));
    let connect = match reach {
        Reach::Nothing => "",
        Reach::ItsServer => "; connect-src 'self'",
    };
    format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; img-src data:{connect}; base-uri 'none'; \
         form-action 'none'",
        digest(script),
        digest(STYLE)
    )
}

/// Returns the script, wrapped in a function scope.
pub(crate) fn script() -> String {
    format!("(() => {{\n\"use strict\";\n{}}})();\n", SCRIPTS.join("\n"))
}

/// Returns a document as JSON without characters that have a special meaning in HTML or end a line
/// in JavaScript.
fn inert(document: &Value) -> String {
    let json = document.to_string();
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            // These characters occur only within strings, so escaping them does not change the JSON
            // value.
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\u{feff}' => {
                text.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => text.push(c),
        }
    }
    text
}

/// Escapes text for HTML, and removes characters that control how other text is displayed.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            c if c.is_control() => {}
            '\u{61c}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{2069}'
            | '\u{feff}' => {}
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use serde_json::json;

    const HOSTILE: &str = "</script><script>alert(1)</script><!-- {script} & \u{2028} \u{202e}\"'";

    fn data(page: &str) -> &str {
        let (_, rest) = page.split_once("id=\"data\">").unwrap();
        rest.split_once("</script>").unwrap().0
    }

    #[test]
    fn what_a_file_says_is_data() {
        let document = json!({ "kind": "model", "name": HOSTILE, HOSTILE: [HOSTILE] });
        let page = html(HOSTILE, &document, Reach::Nothing);
        assert_eq!(serde_json::from_str::<Value>(data(&page)).unwrap(), document);
        assert!(!data(&page).contains(['<', '>', '&', '\u{2028}']));
        // The page contains two script elements, and no tags other than those of the template.
        let tags = |text: &str| text.matches("<script").count();
        assert_eq!((tags(&page), tags(TEMPLATE)), (2, 2));
        assert!(!page.contains("alert(1)</script><!--"));
        let (_, title) = page.split_once("<title>").unwrap();
        let (title, _) = title.split_once("</title>").unwrap();
        assert!(
            !title.contains('<') && !title.contains('\u{202e}') && title.contains("&lt;/script&gt;"),
            "{title}"
        );
        assert!(page.ends_with("</html>\n"));
    }

    #[test]
    fn the_policy_names_what_is_in_the_page() {
        let page = html("t", &json!({}), Reach::Nothing);
        let (_, script) = page.rsplit_once("<script>").unwrap();
        let (script, _) = script.split_once("</script>").unwrap();
        let digest = STANDARD.encode(Sha256::digest(script.as_bytes()));
        assert!(page.contains(&format!("script-src 'sha256-{digest}'")));
        let (_, style) = page.split_once("<style>").unwrap();
        let digest = STANDARD.encode(Sha256::digest(style.split_once("</style>").unwrap().0.as_bytes()));
        assert!(page.contains(&format!("style-src 'sha256-{digest}'")));
        assert!(page.contains("default-src 'none'") && !page.contains("connect-src"));
        assert!(html("t", &json!({}), Reach::ItsServer).contains("connect-src 'self'"));
    }

    #[test]
    fn the_script_needs_no_network_and_makes_no_markup() {
        let script = script();
        for word in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
            "</script",
            "<!--",
        ] {
            assert!(!script.contains(word), "{word}");
        }
        // The only URL in the script is an XML namespace.
        assert_eq!(script.matches("http").count(), 1);
        for text in [TEMPLATE, STYLE] {
            assert!(!text.contains("http:") && !text.contains("https:") && !text.contains("url("), "{text}");
        }
    }
}
