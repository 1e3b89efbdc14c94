//! Tests writes of objects to stores.

use super::{place, read, remotes_with};
use crate::Remotes;
use crate::testing::bucket::{Bucket, start, start_google};
use crate::testing::server::{BodyMode, Reply, Request, Server, pattern};
use crate::testing::store::query;
use std::sync::Arc;
use std::time::Duration;
use tensorferry_core::context::remote::{Condition, NewObject, RemotePlace, RemoteUpload};
use tensorferry_sdk::{ErrorKind, Result};

const MIB: usize = 1 << 20;
/// With this memory budget, each part is 5 MiB long.
const MEMORY: u64 = 20 << 20;

fn of(server: &Server, pairs: &[&str]) -> Remotes {
    let endpoint = format!("endpoint={}", server.url(""));
    let keys = ["access-key=AKIAHUSH5150", "secret-key=hush5150/secret"];
    let pairs: Vec<&str> = keys.into_iter().chain([&*endpoint]).chain(pairs.iter().copied()).collect();
    remotes_with(MEMORY, &pairs)
}

fn bucket(server: &Server) -> Arc<dyn RemotePlace> {
    place(&of(server, &[]), "s3://bucket").0
}

fn object(len: usize) -> NewObject {
    NewObject { len: Some(len as u64), late: Vec::new() }
}

fn begin(place: &Arc<dyn RemotePlace>, key: &str, bytes: &[u8]) -> Result<Arc<dyn RemoteUpload>> {
    let upload = place.create(key, object(bytes.len()))?;
    for (number, window) in bytes.chunks(MIB).enumerate() {
        upload.write_at((number * MIB) as u64, window)?;
    }
    upload.finish()?;
    Ok(upload)
}

fn put(
    place: &Arc<dyn RemotePlace>,
    key: &str,
    bytes: &[u8],
    condition: &Condition,
) -> Result<Option<String>> {
    begin(place, key, bytes)?.commit(condition)
}

fn is_part(request: &Request) -> bool {
    request.method == "PUT" && query(request, "uploadId").is_some()
}

fn is_complete(request: &Request) -> bool {
    request.method == "POST" && query(request, "uploadId").is_some()
}

#[test]
fn an_object_in_parts_is_there_whole_or_not_at_all() {
    let (server, stored) = start(|_, _| None);
    let place = bucket(&server);
    let bytes = pattern(13 * MIB + 5);
    // One range of late bytes is at the end of the first part, and the other extends across the
    // boundary of two parts.
    let late = vec![4 * MIB as u64..4 * MIB as u64 + 7, (10 * MIB - 2) as u64..(10 * MIB + 2) as u64];
    let upload = place.create("a/b c", NewObject { late: late.clone(), ..object(bytes.len()) }).unwrap();
    let windows: Vec<usize> = (0..14).collect();
    std::thread::scope(|scope| {
        for half in [&windows[..7], &windows[7..]] {
            let (upload, bytes, late) = (&upload, &bytes, &late);
            scope.spawn(move || {
                for number in half.iter().rev() {
                    let start = number * MIB;
                    let mut window = bytes[start..bytes.len().min(start + MIB)].to_vec();
                    // The late bytes are first written as zeros.
                    for (at, byte) in window.iter_mut().enumerate() {
                        let is_late = late.iter().any(|range| range.contains(&((start + at) as u64)));
                        *byte = if is_late { 0 } else { *byte };
                    }
                    upload.write_at(start as u64, &window).unwrap();
                }
            });
        }
    });
    assert!(stored.keys().is_empty());
    for range in late {
        let (start, end) = (usize::try_from(range.start).unwrap(), usize::try_from(range.end).unwrap());
        upload.write_late(range.start, &bytes[start..end]).unwrap();
    }
    upload.finish().unwrap();
    assert!(stored.keys().is_empty());
    assert_eq!(upload.commit(&Condition::Absent).unwrap(), None);
    assert!(stored.get("a/b c").unwrap() == bytes);
    drop(upload);
    assert_eq!((stored.open_uploads(), stored.keys().len()), (0, 1));
    let requests = server.requests();
    let parts: Vec<usize> = requests.iter().filter(|r| is_part(r)).map(|r| r.body.len()).collect();
    assert_eq!(parts.iter().sum::<usize>(), bytes.len());
    assert_eq!(parts.iter().filter(|len| **len == 5 * MIB).count(), 2);
    assert!(requests.iter().filter(|r| is_part(r)).all(|r| r.header("x-amz-checksum-crc64nvme").is_some()));
    let complete = requests.iter().find(|r| is_complete(r)).unwrap();
    assert_eq!(complete.header("if-none-match"), Some("*"));
}

#[test]
fn of_an_unknown_length_it_ends_where_the_last_byte_was_written() {
    let (server, stored) = start(|_, _| None);
    let place = bucket(&server);
    for len in [0, 5, 5 * MIB, 12 * MIB + 1] {
        let bytes = pattern(len);
        let upload = place.create("x", NewObject::default()).unwrap();
        for (number, window) in bytes.chunks(MIB + 3).enumerate() {
            upload.write_at((number * (MIB + 3)) as u64, window).unwrap();
        }
        upload.finish().unwrap();
        upload.commit(&Condition::Any).unwrap();
        assert!(stored.get("x").unwrap() == bytes, "{len}");
    }
    let upload = place.create("y", NewObject::default()).unwrap();
    upload.write_at(5, b"a").unwrap();
    assert_eq!(upload.finish().unwrap_err().kind(), ErrorKind::Plugin);
}

#[test]
fn what_stands_under_a_name_is_replaced_only_where_it_may_be() {
    let (server, stored) = start(|_, _| None);
    let place = bucket(&server);
    for len in [10, 11 * MIB] {
        let (bytes, other) = (pattern(len), vec![7; len]);
        put(&place, "a", &bytes, &Condition::Absent).unwrap();
        let error = put(&place, "a", &other, &Condition::Absent).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!(error.to_string().contains("s3://bucket/a exists; use --force to replace it"), "{error}");
        let same = Condition::Same(place.stamp("a").unwrap().unwrap());
        put(&place, "a", &other, &same).unwrap();
        assert!(stored.get("a").unwrap() == other);
        let error = put(&place, "a", &bytes, &same).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Transient, "{error}");
        put(&place, "a", &bytes, &Condition::Any).unwrap();
        assert!(stored.get("a").unwrap() == bytes);
        assert_eq!(stored.open_uploads(), 0);
        place.remove("a").unwrap();
        place.remove("a").unwrap();
        assert_eq!(place.stamp("a").unwrap(), None);
        // An object that was deleted does not match the condition.
        let error = put(&place, "a", &bytes, &same).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Transient, "{error}");
    }
}

#[test]
fn where_the_answer_to_a_complete_was_lost_the_object_tells() {
    let is_last = |request: &Request| {
        is_complete(request) || (request.method == "PUT" && query(request, "uploadId").is_none())
    };
    let lost: [fn(Reply) -> Reply; 2] =
        [|_| Reply::new(500, ""), |reply| reply.with_body_mode(BodyMode::Cut(0)).with("Content-Length", 9)];
    for lose in lost {
        let (server, stored) = start(move |request, bucket: &Bucket| {
            is_last(request).then(|| match bucket.answer(request) {
                done if done.status == 200 => lose(done),
                refused => refused,
            })
        });
        let place = bucket(&server);
        for len in [10, 11 * MIB] {
            put(&place, &format!("{len}"), &pattern(len), &Condition::Absent).unwrap();
            assert!(stored.get(&format!("{len}")).unwrap() == pattern(len));
        }
        assert_eq!(server.requests().iter().filter(|request| is_last(request)).count(), 2);
        // An object of the same length from a different writer is not mistaken for the uploaded
        // object.
        let error = put(&place, "10", &[7; 10], &Condition::Absent).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
    }
}

#[test]
fn an_error_that_comes_with_success_is_one() {
    let says = |code: &'static str| {
        start(move |request, _| {
            let is_first = |request: &Request| is_complete(request) && request.body.len() > 1;
            is_first(request).then(|| {
                Reply::new(200, format!("<?xml?>\n<Error><Code>{code}</Code><Message>m</Message></Error>"))
            })
        })
    };
    for (code, kind) in [
        ("PreconditionFailed", ErrorKind::Usage),
        ("InternalError", ErrorKind::Transient),
        ("ConditionalRequestConflict", ErrorKind::Transient),
        ("InvalidPart", ErrorKind::Io),
    ] {
        let (server, stored) = says(code);
        let error = put(&bucket(&server), "a", &pattern(11 * MIB), &Condition::Absent).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert_eq!((stored.open_uploads(), stored.keys().len()), (0, 0));
    }
}

#[test]
fn a_conflict_is_tried_again_where_that_is_all_there_is_to_do() {
    let (server, stored) = start(|request, _| {
        let is_early = request.method == "PUT" && request.number < 3 && query(request, "uploadId").is_none();
        is_early.then(|| {
            Reply::new(409, "<Error><Code>ConditionalRequestConflict</Code><Message>m</Message></Error>")
        })
    });
    put(&bucket(&server), "a", b"abc", &Condition::Absent).unwrap();
    assert_eq!(stored.get("a").unwrap(), b"abc");
    assert!(server.requests().len() > 3);
}

#[test]
fn a_store_without_conditions_is_looked_at_and_that_is_told() {
    let (server, stored) = start(|request, _| {
        let has = request.header("if-none-match").or(request.header("if-match")).is_some();
        has.then(|| Reply::new(501, "<Error><Code>NotImplemented</Code><Message>m</Message></Error>"))
    });
    let place = bucket(&server);
    for len in [10, 11 * MIB] {
        let key = format!("{len}");
        let note = put(&place, &key, &pattern(len), &Condition::Absent).unwrap().unwrap();
        assert!(note.contains("no conditional multipart upload"), "{note}");
        let error = put(&place, &key, &pattern(len), &Condition::Absent).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert_eq!(stored.open_uploads(), 0);
    }
}

#[test]
fn an_upload_that_fails_or_is_dropped_leaves_nothing() {
    let deny = |status: u16| {
        start(move |request, _| {
            let is_second = is_part(request) && query(request, "partNumber").as_deref() == Some("2");
            is_second.then(|| {
                let words = format!("{:?}", request.headers);
                Reply::new(
                    status,
                    format!("<Error><Code>AccessDenied</Code><Message>{words}</Message></Error>"),
                )
            })
        })
    };
    for (status, kind) in [(403, ErrorKind::Io), (500, ErrorKind::Transient), (404, ErrorKind::Transient)] {
        let (server, stored) = deny(status);
        let place = bucket(&server);
        let error = put(&place, "a", &pattern(16 * MIB), &Condition::Absent).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        let text = error.to_string();
        assert!(text.contains("bucket/a") && !text.contains("hush") && !text.contains("HUSH"), "{text}");
        assert_eq!((stored.open_uploads(), stored.keys().len()), (0, 0));
        let tries =
            server.requests().iter().filter(|r| query(r, "partNumber").as_deref() == Some("2")).count();
        assert_eq!(tries, if status == 500 { 4 } else { 1 });
    }
    let (server, stored) = start(|_, _| None);
    let upload = begin(&bucket(&server), "a", &pattern(16 * MIB)).unwrap();
    assert_eq!(stored.open_uploads(), 1);
    drop(upload);
    assert_eq!((stored.open_uploads(), stored.keys().len()), (0, 0));
}

#[test]
fn passing_faults_of_a_part_are_mended() {
    let (server, stored) = start(|request, _| match request.number {
        2 => Some(Reply::new(503, "<Error><Code>SlowDown</Code></Error>").with("Retry-After", 0)),
        3 => Some(Reply::new(200, "").with_body_mode(BodyMode::Cut(0)).with("Content-Length", 9)),
        _ => None,
    });
    put(&bucket(&server), "a", &pattern(16 * MIB), &Condition::Absent).unwrap();
    assert!(stored.get("a").unwrap() == pattern(16 * MIB));
}

#[test]
fn google_s_store_knows_conditions_for_small_objects_alone() {
    let (server, stored) = start_google(None, |_, _| None);
    let endpoint = format!("endpoint={}", server.url(""));
    let place = place(&remotes_with(MEMORY, &[&endpoint, "anonymous=true"]), "gs://bucket").0;
    let put = |key: &str, bytes: &[u8]| put(&place, key, bytes, &Condition::Absent);
    assert_eq!(put("small", b"abc").unwrap(), None);
    assert!(put("large", &pattern(11 * MIB)).unwrap().unwrap().contains("no conditional multipart upload"));
    assert!(stored.get("large").unwrap() == pattern(11 * MIB));
    for key in ["small", "large"] {
        let len = stored.get(key).unwrap().len();
        let error = put(key, &vec![7; len]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
        assert!(stored.get(key).unwrap() == pattern(len) || key == "small");
    }
    assert_eq!((stored.get("small").unwrap(), stored.open_uploads()), (b"abc".to_vec(), 0));
    // A generation number identifies each written object, even if two objects have the same bytes.
    for (key, len) in [("small", 3), ("large", 11 * MIB)] {
        let write = |bytes: &[u8], condition: &Condition| super::upload::put(&place, key, bytes, condition);
        let older = place.stamp(key).unwrap().unwrap();
        assert_eq!(older.tag, format!("generation:{}", stored.generation(key).unwrap()));
        let same = Condition::Same(older);
        let note = write(&pattern(len), &same).unwrap();
        assert_eq!(note.is_some_and(|note| note.contains("was unchanged")), len > 5 * MIB);
        let error = write(&pattern(len), &same).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Transient, "{error}");
        assert_eq!(stored.open_uploads(), 0);
    }
    let file = place.open("large").unwrap();
    stored.put("large", &stored.get("large").unwrap());
    let error = read(&*file, 8 << 20, 100).unwrap_err();
    assert!(error.to_string().contains("changed while it was being read"), "{error}");
    let error = place.end_uploads("", Duration::ZERO).unwrap_err().to_string();
    assert!(error.contains("AbortIncompleteMultipartUpload"), "{error}");
}

#[test]
fn uploads_of_dead_runs_are_ended_by_their_age() {
    let (server, stored) = start(|_, _| None);
    let place = bucket(&server);
    // Simulates the upload of a killed process.
    std::mem::forget(begin(&place, "dir/a&b", &pattern(11 * MIB)).unwrap());
    std::mem::forget(begin(&place, "other", &pattern(11 * MIB)).unwrap());
    let old = Duration::from_secs(3600);
    let ages = Duration::from_secs(100 * 365 * 86_400);
    assert!(place.end_uploads("dir/", ages).unwrap().is_empty());
    assert_eq!(place.end_uploads("dir/", old).unwrap(), ["s3://bucket/dir/a&b"]);
    assert_eq!(stored.open_uploads(), 1);
    let (hub, _) = place_of_http();
    assert_eq!(hub.end_uploads("", old).unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(hub.create("a", NewObject::default()).err().unwrap().kind(), ErrorKind::Unsupported);
}

fn place_of_http() -> (Arc<dyn RemotePlace>, String) {
    place(&super::remotes(&[]), "http://127.0.0.1:1/a")
}

#[test]
fn parts_that_wait_for_late_bytes_are_held_outside_of_the_memory() {
    let (server, stored) = start(|_, _| None);
    let place = bucket(&server);
    // There are ten parts with one late byte each. Together, the parts need more than twice the
    // memory budget.
    let len = 50 * MIB;
    let late: Vec<_> = (0..10).map(|part| (part * 5 * MIB) as u64..(part * 5 * MIB) as u64 + 1).collect();
    let upload = place.create("a", NewObject { late: late.clone(), ..object(len) }).unwrap();
    let bytes = pattern(len);
    for (number, window) in bytes.chunks(MIB).enumerate() {
        upload.write_at((number * MIB) as u64, window).unwrap();
    }
    assert!(!server.requests().iter().any(is_part));
    for range in late {
        upload.write_late(range.start, &[bytes[usize::try_from(range.start).unwrap()]]).unwrap();
    }
    upload.finish().unwrap();
    upload.commit(&Condition::Absent).unwrap();
    assert!(stored.get("a").unwrap() == bytes);
}
