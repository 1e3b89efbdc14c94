//! Tests that secrets never appear in output.

use super::{place, read, remotes};
use crate::Secret;
use crate::testing::server::{Reply, Server};

/// A string that every secret in the test contains.
const WORD: &str = "hush5150";

#[test]
fn nothing_that_is_shown_holds_a_secret() {
    let mut shown = vec![format!("{:?} {}", Secret::new(WORD), Secret::new(WORD))];
    // A server that repeats everything it receives.
    let server = Server::start(|request| {
        let heard = format!("{} {:?}", request.target, request.headers);
        match request.path() {
            "/busy" => Reply::new(503, heard),
            "/moved" => Reply::redirect(format!("file:///?{heard}").replace(['"', '\n', ' ', '{', '}'], "")),
            "/json" => Reply::new(403, serde_json::json!({ "error": heard }).to_string()),
            "/good" if request.number > 0 => Reply::file(request, b"bytes", "\"a\""),
            _ => Reply::new(403, heard),
        }
    });
    let pairs = [&*format!("http-token={WORD}-token"), "retries=1"];
    let remotes = remotes(&pairs);
    for (path, user) in [("busy", ""), ("json", ""), ("moved", ""), ("none", ""), ("good", "me:hush5150@")] {
        let url = server.url(&format!("{path}?sig={WORD}")).replace("http://", &format!("http://{user}"));
        let (place, path) = place(&remotes, &url);
        shown.push(place.url(&path));
        match place.look(&path) {
            Err(error) => shown.extend([error.to_string(), format!("{error:?}")]),
            Ok(entry) => shown.push(format!("{entry:?}")),
        }
        match place.open(&path) {
            Err(error) => shown.extend([error.to_string(), format!("{error:?}")]),
            Ok(file) => {
                shown.push(format!("{:?}", file.stamp()));
                shown.push(read(&*file, 3, 100).unwrap_err().to_string());
            }
        }
    }
    for url in
        [format!("http://me:{WORD}@:x/a"), format!("http:///a?sig={WORD}"), format!("http://h/?a={WORD}")]
    {
        use tensorferry_core::context::remote::Remote;
        shown.push(remotes.place(&url).err().unwrap().to_string());
    }
    assert!(shown.len() > 15);
    assert!(server.requests().iter().all(|request| request.target.contains(WORD)));
    let found: Vec<_> = shown.iter().filter(|text| text.contains(WORD)).collect();
    assert!(found.is_empty(), "{found:#?}");
}
