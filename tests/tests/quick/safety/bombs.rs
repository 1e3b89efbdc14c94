//! Tests of pickles that expand to much more than their length, nest a million levels deep, or
//! refer to missing bytes. In every container, each pickle must lead to a typed error or a correct
//! result, in bounded time and memory.

use super::containers::{Files, around, float, instead_of_tables};
use super::sharing::constant;
use tempfile::tempdir;
use tensorferry_test_kit::pickle::{
    call, dict, global, int, ints, list, pickle, storage, tensor, text, tuple,
};
use tensorferry_tests::ferry::Outcome;
use tensorferry_tests::wire::Wire;
use tensorferry_tests::{Ferry, args};

/// Depth, count or length of a bomb.
const MANY: usize = 1_000_000;
/// A count that is large enough to expose quadratic costs.
const ENOUGH: usize = 200_000;
/// A count of tensors that is large enough to expose quadratic costs.
const SOME: usize = 50_000;

/// The expected result for a pickle.
#[derive(Debug, Clone, Copy)]
enum Answer {
    /// A typed error that contains this text.
    Refused(&'static str),
    Read,
    /// A catalog, or an error if the container requires valid storages.
    Either,
}

use Answer::{Either, Read, Refused};

struct Bomb {
    name: &'static str,
    pickle: Vec<u8>,
    has_storage: bool,
    answer: Answer,
}

/// Returns a bomb of protocol 4 that does not refer to a storage.
fn plain(name: &'static str, answer: Answer, body: &[u8]) -> Bomb {
    Bomb { name, pickle: [b"\x80\x04", body, b"."].concat(), has_storage: false, answer }
}

/// Returns a bomb of protocol 2 around a tensor.
fn around_tensor(name: &'static str, answer: Answer, body: &[u8]) -> Bomb {
    Bomb { name, pickle: pickle(body), has_storage: true, answer }
}

/// Inspects an input within the limits for hostile files.
pub(crate) fn read(ferry: &Ferry, files: &Files) -> Outcome {
    let folder = tempdir().unwrap();
    let input = files.write(folder.path());
    // Raise the limit, because the default refuses millions of values regardless of their kind.
    ferry.run_bounded(args!["inspect", input, "--json", "--limit", "nodes=4M"])
}

fn all_are_defused(bombs: &[Bomb]) {
    let ferry = Ferry::new();
    let mut wrong = Vec::new();
    for Bomb { name, pickle, has_storage, answer } in bombs {
        for files in around(pickle, *has_storage) {
            let outcome = read(&ferry, &files);
            let is_right = match answer {
                Refused(word) => outcome.code == Some(3) && outcome.stderr.contains(word),
                // A shard must contain a dict with the names in the index, so this shard may be
                // refused.
                Read if files.container == "shards" => matches!(outcome.code, Some(0 | 3)),
                Read => outcome.code == Some(0),
                Either => matches!(outcome.code, Some(0 | 3)),
            };
            if !is_right {
                wrong.push(format!("{name} in {}, {answer:?}: {}", files.container, short(&outcome)));
            }
        }
        for files in instead_of_tables(pickle) {
            let outcome = read(&ferry, &files);
            if outcome.code != Some(3) {
                wrong.push(format!("{name} instead of a table of {}: {}", files.container, short(&outcome)));
            }
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n\n{}", wrong.len(), wrong.join("\n\n"));
}

/// Shortens the output of the program, which may be long.
pub(crate) fn short(outcome: &Outcome) -> String {
    outcome.to_string().chars().take(1500).collect()
}

/// Nests a value in `depth` levels of lists. Each list contains ten references to the next inner
/// list.
fn shared(leaf: &[u8], depth: u8) -> Vec<u8> {
    let mut body = [b"(", leaf, b"q\x00"].concat();
    for level in 0..depth {
        body.extend(b"](");
        body.extend([b'h', level].repeat(10));
        body.extend([b'e', b'q', level + 1]);
    }
    body.push(b't');
    body
}

/// Repeats `unit`.
fn times(unit: &[u8], count: usize) -> Vec<u8> {
    unit.repeat(count)
}

#[test]
#[ignore = "a minute: pickles of a million values"]
fn nesting() {
    // The function is stored in the memo, and dropped from the stack.
    let function = [&global("m", "f")[..], b"q\x000"].concat();
    let nested = |parts: &[&[u8]]| [&[&function[..]][..], parts].concat().concat();
    let deep = Refused("nested too deep");
    all_are_defused(&[
        plain("lists", deep, &[times(b"]", MANY), times(b"a", MANY - 1)].concat()),
        plain("tuples", deep, &[b")".to_vec(), times(b"\x85", MANY)].concat()),
        plain("dicts", deep, &[times(b"}K\x01", MANY), b"}".to_vec(), times(b"s", MANY)].concat()),
        plain("a key", deep, &[b"})".to_vec(), times(b"\x85", MANY), b"Ns".to_vec()].concat()),
        plain("frozen sets", deep, &[times(b"(", MANY), times(b"\x91", MANY)].concat()),
        plain(
            "arguments of calls",
            deep,
            &nested(&[&times(b"h\x00", MANY), b")R", &times(b"\x85R", MANY - 1)]),
        ),
        plain("results of calls that are called", Read, &nested(&[b"h\x00", &times(b")R", MANY)])),
        plain("states of objects", deep, &nested(&[&times(b"h\x00)\x81", MANY), b"}", &times(b"b", MANY)])),
        plain("persistent ids", Either, &[b"N".to_vec(), times(b"Q", MANY)].concat()),
        plain("marks", Refused("left over"), &[b"N".to_vec(), times(b"(", MANY)].concat()),
    ]);
}

#[test]
#[ignore = "a minute: pickles of a million values"]
fn sharing() {
    let doubled = |leaf: &[u8]| [leaf, &times(b"2\x86", 64)].concat();
    let far = |at: usize| [&b"r"[..], &u32::try_from(at * 20_000).unwrap().to_le_bytes()].concat();
    let limit = Refused("limit exceeded");
    all_are_defused(&[
        plain("references without tensors", Read, &shared(b"]", 200)),
        plain("doubles without tensors", Read, &doubled(b"]")),
        around_tensor("references to a tensor", limit, &shared(&float(), 40)),
        around_tensor("doubles of a tensor", limit, &doubled(&float())),
        plain("a far memo", Read, b"Nr\xff\xff\xff\xff0j\xff\xff\xff\xff"),
        plain("a memo past 64 bits", Refused("memo"), b"Np99999999999999999999\n"),
        plain("many far memos", Read, &[b"N".to_vec(), (0..ENOUGH).flat_map(far).collect()].concat()),
    ]);
}

#[test]
#[ignore = "a minute: pickles of a million values"]
fn cycles() {
    let module = |modules: &[u8]| {
        let state = dict(&[
            (text("_parameters"), b"}".to_vec()),
            (text("_buffers"), b"}".to_vec()),
            (text("_modules"), modules.to_vec()),
        ]);
        [&global("m", "M")[..], b")\x81q\x00", &state, b"b"].concat()
    };
    all_are_defused(&[
        plain("a list", Read, b"]q\x00h\x00a"),
        plain("a dict", Read, b"}q\x00K\x01h\x00s"),
        plain("a tuple, by a list", Read, b"]q\x00(h\x00ta"),
        plain("an object's state", Read, &[&global("m", "C")[..], b")\x81q\x00}K\x01h\x00sb"].concat()),
        plain("an object that is its state", Read, &[&global("m", "C")[..], b")\x81q\x00h\x00b"].concat()),
        plain("a module", Read, &module(&dict(&[(text("me"), b"h\x00".to_vec())]))),
    ]);
}

#[test]
#[ignore = "a minute: pickles of a million values"]
fn claims() {
    let long = |op: &[u8], len: &[u8]| [op, len, b"abc"].concat();
    let most = [0xff; 8];
    let half = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
    let digits = times(b"9", MANY);
    all_are_defused(&[
        plain("LONG4", Refused("ends inside"), &long(b"\x8b", &half[4..])),
        plain("LONG4 of a negative length", Refused("negative"), &long(b"\x8b", &most[..4])),
        plain("BINUNICODE", Refused("ends inside"), &long(b"X", &most[..4])),
        plain("BINUNICODE8", Refused("ends inside"), &long(b"\x8d", &most)),
        plain("BINBYTES", Refused("ends inside"), &long(b"B", &most[..4])),
        plain("BINBYTES8", Refused("ends inside"), &long(b"\x8e", &half)),
        plain("BYTEARRAY8", Refused("ends inside"), &long(b"\x96", &half)),
        plain("BINSTRING", Refused("negative"), &long(b"T", &most[..4])),
        plain("decimal digits", Refused("digits"), &[b"L", &digits[..], b"L\n"].concat()),
        plain("digits of an int", Refused("digits"), &[b"I", &digits[..], b"\n"].concat()),
        plain("a number of a megabyte", Read, &[b"\x8b\x40\x42\x0f\x00", &times(b"\x7f", MANY)[..]].concat()),
        plain("a line without end", Refused("line"), &[b"c", &times(b"m", MANY)[..]].concat()),
        plain("a frame without end", Refused("frame"), &[b"\x95", &most[..], b"N"].concat()),
        plain("a frame that ends in an instruction", Refused("frame"), b"\x95\x02\0\0\0\0\0\0\0M\x01\x01"),
        plain("a frame that is too long", Refused("frame"), b"\x95\x03\0\0\0\0\0\0\0N"),
        plain("a frame in a frame", Refused("frame"), b"\x95\x0b\0\0\0\0\0\0\0\x95\x01\0\0\0\0\0\0\0N"),
        plain(
            "a frame that seems to begin in bytes, and one in a frame",
            Refused("inside another"),
            b"C\x01\x95\x95\x0b\0\0\0\0\0\0\0C\x01\x95\x95\0\0\0\0\0\0\0\0",
        ),
    ]);
}

#[test]
#[ignore = "a minute: pickles of a million values"]
fn views() {
    let view = |size: &[i64], stride: &[i64]| tensor(storage("FloatStorage", "0", 4), 0, size, stride);
    let many = |value: &[u8], count: usize| [b"(", value, b"q\x00", &times(b"h\x00", count), b"t"].concat();
    all_are_defused(&[
        around_tensor("a broadcast", Refused("stored"), &view(&[1 << 21, 1 << 21], &[0, 0])),
        around_tensor("a broadcast past 64 bits", Refused(""), &view(&[1 << 40, 1 << 40], &[0, 0])),
        around_tensor(
            "broadcasts that are small each",
            Refused("stored"),
            &many(&view(&[1 << 30], &[0]), 100),
        ),
        around_tensor("a million dimensions", Read, &view(&vec![1; MANY], &vec![0; MANY])),
        around_tensor("one tensor a million times", Refused("limit exceeded"), &many(&float(), MANY)),
        around_tensor("one tensor in many lists", Read, &again(&float())),
    ]);
}

/// Returns many lists that contain the same value. Each list is a separate value in the pickle.
fn again(value: &[u8]) -> Vec<u8> {
    [value, b"q\x000](", &times(b"]h\x00a", SOME), b"e"].concat()
}

#[test]
#[ignore = "a minute: pickles of a million values"]
fn names() {
    let long = [text(&"k".repeat(60_000)), b"q\x010".to_vec()].concat();
    let million = [text(&"k".repeat(MANY)), b"q\x010".to_vec()].concat();
    let of_texts = [b"(", &times(b"h\x01", ENOUGH)[..], b"t"].concat();
    let many = list(&vec![float(); 5000]);
    let same = dict(&vec![(b")".to_vec(), b"h\x00".to_vec()); SOME]);
    let too_long = Refused("too long");
    all_are_defused(&[
        plain("a key of long texts", too_long, &[million, dict(&[(of_texts, b"]".to_vec())])].concat()),
        around_tensor(
            "a long key of many tensors",
            too_long,
            &[long, dict(&[(b"h\x01".to_vec(), many)])].concat(),
        ),
        around_tensor("names that are all the same", Read, &[&float()[..], b"q\x000", &same].concat()),
        plain("a class", Refused("invalid name"), &[&global("m", &"C".repeat(MANY))[..], b")R"].concat()),
    ]);
}

/// Returns an object of a class with the attributes of a module, and additional attributes.
fn module(class: &str, parts: [&[u8]; 3], more: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let names = ["_parameters", "_buffers", "_modules"];
    let mut state: Vec<_> = names.iter().zip(parts).map(|(name, part)| (text(name), part.to_vec())).collect();
    state.extend(more.iter().cloned());
    [&global("m", class)[..], b")\x81", &dict(&state), b"b"].concat()
}

#[test]
#[ignore = "a minute: pickles of a million values"]
fn modules() {
    let numbered = |count: usize, value: &[u8]| {
        dict(&(0..count).map(|at| (text(&at.to_string()), value.to_vec())).collect::<Vec<_>>())
    };
    let named =
        |name: &str, count: usize| (0..count).map(|at| text(&format!("{name}{at}"))).collect::<Vec<_>>();
    let empty = b"}".as_slice();
    let set = call(&global("builtins", "set"), &[list(&named("x", SOME))]);
    let not_persistent = [(text("_non_persistent_buffers_set"), set)];
    let wide: Vec<_> = named("a", ENOUGH).into_iter().map(|name| (name, b"N".to_vec())).collect();
    let wide_module = [&module("M", [empty, empty, empty], &wide)[..], b"q\x000"].concat();
    // This object is not a module. It has as many attributes as `wide_module`, and also a tensor,
    // so that the reader walks it again.
    let wide_object = [&global("m", "C")[..], b")\x81", &dict(&wide), b"b(K\x01", &float(), b"u"].concat();
    let attribute = [text(&"a".repeat(MANY)), b"q\x000".to_vec()].concat();
    let classes: Vec<_> = (0..2000)
        .map(|at| module(&format!("C{at}"), [empty, empty, empty], &[(b"h\x00".to_vec(), b"N".to_vec())]))
        .collect();
    let buffers = module("M", [empty, &numbered(SOME, b"h\x00"), empty], &not_persistent);
    let modules = module("N", [empty, empty, &numbered(ENOUGH, b"h\x00")], &[]);
    all_are_defused(&[
        around_tensor("buffers that are not persistent", Read, &[&float()[..], b"q\x000", &buffers].concat()),
        plain("one wide module, many times", Either, &[wide_module, modules].concat()),
        around_tensor("one wide object, many times", Either, &again(&wide_object)),
        plain("many classes with a long attribute", Read, &[attribute, list(&classes)].concat()),
    ]);
}

#[test]
#[ignore = "a minute: pickles of a million values"]
fn arrays_and_parts() {
    let data = call(&global("_codecs", "encode"), &[text(&"\u{1}".repeat(MANY)), text("latin1")]);
    let dtype = call(&global("numpy", "dtype"), &[text("u1"), b"\x89".to_vec(), b"\x88".to_vec()]);
    let function = global("numpy._core.multiarray", "_reconstruct");
    let made = call(&function, &[global("numpy", "ndarray"), ints(&[0]), text("b")]);
    let state = tuple(&[int(1), ints(&[i64::try_from(MANY).unwrap()]), dtype, b"\x89".to_vec(), data]);
    let array = [&made[..], &state, b"b"].concat();
    let numbers = list(&vec![b"K\x01".to_vec(); ENOUGH]);
    let parameters = tuple(&[global("torch", "per_channel_affine"), numbers.clone(), numbers, int(0)]);
    let channels = ints(&[i64::try_from(ENOUGH).unwrap()]);
    let place = [storage("QInt32Storage", "0", 4), int(0), channels, ints(&[0])];
    let arguments = [&place[..], &[parameters, b"\x89".to_vec(), b"N".to_vec()]].concat();
    let quantized = call(&global("torch._utils", "_rebuild_qtensor"), &arguments);
    all_are_defused(&[
        plain("one array, in many lists", Refused("share stored bytes too often"), &again(&array)),
        around_tensor(
            "scales of many channels, in many lists",
            Refused("limit exceeded"),
            &again(&quantized),
        ),
    ]);
}

/// Tests a frozen graph with one constant, whose elements all equal the first element.
#[test]
fn a_constant_stands_for_so_much_of_its_graph() {
    let ferry = Ferry::new();
    let graph = ferry.at("graph.pb");
    let of_elements = |elements: i64| {
        std::fs::write(&graph, Wire::new().message(1, &constant(0, elements)).0).unwrap();
    };
    of_elements(16 << 30);
    let refused = ferry.run_bounded(args!["inspect", &graph]).expect(3);
    refused.says(&["--limit expanded_bytes=N"]);
    ferry.run_bounded(args!["inspect", &graph, "--limit", "expanded_bytes=100GiB"]).expect(0);
    of_elements(1 << 28);
    ferry.run_bounded(args!["inspect", &graph]).expect(0);
}
