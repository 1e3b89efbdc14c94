//! Evaluates handmade pickles. The tests check the resulting values, and check that invalid pickles
//! are rejected.

use tensorferry_sdk::{ErrorKind, Limits};
use tensorferry_test_kit::pickle::{call, dict, global, int, list, pickle, text, tuple};
use tensorferry_torch_file::pickle::{EvaluatedPickle, Graph, Value, ValueId, evaluate};

fn run(bytes: &[u8]) -> EvaluatedPickle {
    evaluate(bytes, 0, &Limits::default()).unwrap_or_else(|error| panic!("{error}: {}", bytes.escape_ascii()))
}

fn refuse(bytes: &[u8]) -> String {
    match evaluate(bytes, 100, &Limits::default()) {
        Err(error) => error.to_string(),
        Ok(evaluated) => panic!("{} gave {evaluated:?}", bytes.escape_ascii()),
    }
}

/// Formats a value in a form similar to Python's.
fn show(graph: &Graph, id: ValueId) -> String {
    let all = |items: &[ValueId]| items.iter().map(|&item| show(graph, item)).collect::<Vec<_>>().join(", ");
    let pairs = |items: &[(ValueId, ValueId)]| {
        items
            .iter()
            .map(|&(k, v)| format!("{}: {}", show(graph, k), show(graph, v)))
            .collect::<Vec<_>>()
            .join(", ")
    };
    match graph.value(id) {
        Value::None => "None".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Long(bytes) => format!("long{bytes:?}"),
        Value::Float(value) => format!("{value:?}"),
        Value::Text(text) => format!("{:?}", text.escaped()),
        Value::Bytes(bytes) => format!("b'{}'", bytes.escape_ascii()),
        Value::List(items) => format!("[{}]", all(items)),
        Value::Tuple(_) => format!("({})", all(graph.tuple(id).unwrap())),
        Value::Set(items) => format!("{{{}}}", all(items)),
        Value::Dict(entries) => format!("{{{}}}", pairs(entries)),
        Value::Global(_) => graph.global(id).unwrap().path(),
        Value::Persistent(id) => format!("persistent {}", show(graph, *id)),
        Value::Call(call) => {
            let mut text = format!("{}{}", show(graph, call.function), show(graph, call.arguments));
            for (name, part) in [("keywords", call.keywords), ("state", call.state)] {
                if let Some(part) = part {
                    text.push_str(&format!(" {name} {}", show(graph, part)));
                }
            }
            if !call.items.is_empty() {
                text.push_str(&format!(" items {{{}}}", pairs(&call.items)));
            }
            if !call.appended.is_empty() {
                text.push_str(&format!(" appended [{}]", all(&call.appended)));
            }
            text
        }
    }
}

fn shown(bytes: &[u8]) -> String {
    let EvaluatedPickle { graph, root, len } = run(bytes);
    assert_eq!(len, bytes.len());
    show(&graph, root)
}

#[test]
fn every_instruction_of_protocols_0_and_1() {
    for (bytes, expected) in [
        (&b"I12\n."[..], "12"),
        (b"I00\n.", "false"),
        (b"I01\n.", "true"),
        (b"I-7\n.", "-7"),
        (b"J\xff\xff\xff\xff.", "-1"),
        (b"K\xff.", "255"),
        (b"M\x01\x02.", "513"),
        (b"L12L\n.", "12"),
        (b"L18446744073709551616L\n.", "long[0, 0, 0, 0, 0, 0, 0, 0, 1]"),
        (b"F1.5\n.", "1.5"),
        (b"F-inf\n.", "-inf"),
        (b"G\x3f\xf8\0\0\0\0\0\0.", "1.5"),
        (b"N.", "None"),
        (b"S'a\\x41\\n'\n.", "\"aA\\n\""),
        (b"S'\\xff'\n.", "b'\\xff'"),
        (b"T\x02\0\0\0ab.", "\"ab\""),
        (b"U\x02ab.", "\"ab\""),
        (b"V\\u2603\n.", "\"\u{2603}\""),
        (b"X\x03\0\0\0abc.", "\"abc\""),
        (b"(I1\nI2\nl.", "[1, 2]"),
        (b"(I1\nI2\nd.", "{1: 2}"),
        (b"(I1\nI2\nt.", "(1, 2)"),
        (b"](K\x01K\x02e.", "[1, 2]"),
        (b"]K\x01a.", "[1]"),
        (b"}K\x01K\x02s.", "{1: 2}"),
        (b"}(K\x01K\x02K\x03K\x04u.", "{1: 2, 3: 4}"),
        (b").", "()"),
        (b"K\x01K\x020.", "1"),
        (b"K\x01(K\x02K\x031.", "1"),
        (b"K\x01(0.", "1"),
        (b"]2a.", ""),
        (b"K\x01p5\n0g5\n.", "1"),
        (b"K\x01q\x050h\x05.", "1"),
        (b"K\x01r\x05\0\0\x800j\x05\0\0\x80.", "1"),
        (b"cm\nf\n(K\x01tR.", "m.f(1)"),
        (b"(K\x01im\nf\n.", "m.f(1)"),
        (b"(cm\nf\nK\x01o.", "m.f(1)"),
        (b"cm\nf\n)R}b.", "m.f() state {}"),
        (b"P12\n.", "persistent \"12\""),
        (b"(K\x01tQ.", "persistent (1)"),
    ] {
        if expected.is_empty() {
            // A list that contains itself cannot be formatted.
            assert!(
                matches!(run(bytes).graph.value(run(bytes).root), Value::List(items) if items.len() == 1)
            );
        } else {
            assert_eq!(shown(bytes), expected, "{}", bytes.escape_ascii());
        }
    }
}

#[test]
fn every_instruction_of_protocols_2_to_5() {
    for (body, expected) in [
        (&b"\x88"[..], "true"),
        (b"\x89", "false"),
        (b"\x8a\0", "0"),
        (b"\x8a\x02\xff\0", "255"),
        (b"\x8b\x01\0\0\0\xff", "-1"),
        (b"K\x01\x85", "(1)"),
        (b"K\x01K\x02\x86", "(1, 2)"),
        (b"K\x01K\x02K\x03\x87", "(1, 2, 3)"),
        (b"cm\nC\nK\x01\x85\x81", "m.C(1)"),
        (b"B\x01\0\0\0a", "b'a'"),
        (b"C\x01a", "b'a'"),
        (b"\x8c\x01a", "\"a\""),
        (b"\x8d\x01\0\0\0\0\0\0\0a", "\"a\""),
        (b"\x8e\x01\0\0\0\0\0\0\0a", "b'a'"),
        (b"\x8f(K\x01\x90", "{1}"),
        (b"(K\x01\x91", "builtins.frozenset([1])"),
        (b"cm\nC\n)}\x92", "m.C() keywords {}"),
        (b"\x8c\x01m\x94\x8c\x01f\x93)R\x94h\x01\x86", "(m.f(), m.f())"),
        (b"\x8c\x01m\x8c\x03A.B\x93", "m:A.B"),
        (b"\x96\x01\0\0\0\0\0\0\0a", "builtins.bytearray(b'a')"),
        (b"\x95\x02\0\0\0\0\0\0\0K\x01", "1"),
        (b"c__builtin__\neval\n", "builtins.eval"),
        (b"ccopy_reg\n_reconstructor\n", "copyreg._reconstructor"),
        (b"ctorch.tensor\nTensor\n", "torch._tensor.Tensor"),
        (b"cm\nD\n)R(K\x01K\x02u", "m.D() items {1: 2}"),
        (b"cm\nD\n)R(K\x01e", "m.D() appended [1]"),
        (b"cm\nf\n)R)R", "m.f()()"),
    ] {
        let bytes = [b"\x80\x05", body, b"."].concat();
        assert_eq!(shown(&bytes), expected, "{}", body.escape_ascii());
    }
    assert_eq!(shown(b"\x80\x04\x95\x03\0\0\0\0\0\0\0K\x01."), "1");
}

#[test]
fn what_no_pickler_writes_is_refused() {
    for (bytes, word) in [
        (&b""[..], "ends inside"),
        (b"\x80\x02", "ends inside"),
        (b"\x80\x02.", "before it has created"),
        (b"K\x01K\x02.", "left over"),
        (b"K\x01(.", "left over"),
        (b"K\x01\x80\x02.", "is duplicated"),
        (b"\x80\x02\x80\x02K\x01.", "is duplicated"),
        (b"\x80\x06K\x01.", "newer"),
        (b"\xff", "unknown pickle instruction"),
        (b"\x82\x01.", "registry"),
        (b"\x83\x01\0.", "registry"),
        (b"\x84\x01\0\0\0.", "registry"),
        (b"\x97.", "buffer"),
        (b"K\x01\x98.", "buffer"),
        (b"\x95\xff\xff\xff\xff\xff\xff\xff\xffK\x01.", "longer than the rest"),
        (b"\x95\x01\0\0\0\0\0\0\0K\x01.", "inside an instruction"),
        (b"\x95\x04\0\0\0\0\0\0\0K\x01..", "inside a frame"),
        (b"\x95\x0b\0\0\0\0\0\0\0\x95\x02\0\0\0\0\0\0\0K\x01.", "inside another"),
        (b"X\xff\xff\xff\xffa.", "ends inside"),
        (b"B\xff\xff\xff\xffa.", "ends inside"),
        (b"\x8d\xff\xff\xff\xff\xff\xff\xff\xffa.", "ends inside"),
        (b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7fa.", "ends inside"),
        (b"\x96\xff\xff\xff\xff\xff\xff\xff\x7fa.", "ends inside"),
        (b"\x8b\xff\xff\xff\x7fa.", "ends inside"),
        (b"\x8b\xff\xff\xff\xff.", "negative"),
        (b"T\xff\xff\xff\xff.", "negative"),
        (b"X\x01\0\0\0\xff.", "not UTF-8"),
        (b"I1", "inside a line"),
        (b"Iabc\n.", "decimal"),
        (b"Fabc\n.", "decimal"),
        (b"S'a\n.", "quotes"),
        (b"V\\u12\n.", "escape"),
        (b"h\x00.", "memo"),
        (b"j\xff\xff\xff\xff.", "memo"),
        (b"g-1\n.", "memo"),
        (b"q\x00.", "more values"),
        (b"0.", "more values"),
        (b"K\x01(a.", "more values"),
        (b"](a.", "more values"),
        (b"K\x01(K\x02\x86.", "more values"),
        (b"t.", "no mark"),
        (b"}K\x01(K\x02u.", "has no value"),
        (b"}(K\x01u.", "has no value"),
        (b"(K\x01d.", "has no value"),
        (b"](K\x01K\x02u.", "SETITEMS"),
        (b"}(K\x01e.", "APPENDS"),
        (b"K\x01K\x02a.", "APPENDS"),
        (b"](K\x01\x90.", "ADDITEMS"),
        (b"}}b.", "BUILD"),
        (b"cm\nC\n}b.", "BUILD"),
        (b"cm\nC\n)R}b}b.", "twice"),
        (b"cm\nf\n]R.", "arguments"),
        (b"K\x01)R.", "target of a call"),
        (b"cm\nC\n))\x92.", "keywords"),
        (b"K\x01K\x02\x93.", "two strings"),
        (b"C\x01aC\x01b\x93.", "two strings"),
        (b"(o.", "has no class"),
        (b"c\nf\n.", "name of a function"),
        (b"cm\n\n.", "name of a function"),
        (b"\x80\x04\x8c\x03m\na\x8c\x01f\x93.", "name of a function"),
        (b"\x80\x04\x8c\x01m\x8c\x03f\nb\x93.", "name of a function"),
        (b"\x80\x04\x8c\x01m\x8c\x03a..\x93.", "name of a function"),
        (b"\x80\x02cm\na.b\n.", "dots"),
        (b"cm\xff\nf\n.", "UTF-8"),
    ] {
        let message = refuse(bytes);
        assert!(message.contains(word), "{}: {message}", bytes.escape_ascii());
        assert!(message.contains("offset 1"), "the offset must count from the start of the file: {message}");
    }
}

#[test]
fn a_get_never_copies() {
    // The pickle has ten levels of lists with ten references each. They have ten billion leaves,
    // but consist of only twenty values.
    let mut body = b"]q\x00".to_vec();
    for level in 0..10_u8 {
        body.extend(b"](");
        body.extend([b'h', level].repeat(10));
        body.extend([b'e', b'q', level + 1]);
    }
    // Each level leaves the level below it on the stack, and a tuple then collects all levels.
    let value = run(&pickle(&[b"(", &body[..], b"t"].concat())).graph.len() - run(b"N.").graph.len();
    assert!(value < 20, "{value} values");
}

#[test]
fn budgets_hold_and_deep_nesting_is_no_recursion() {
    let limits = |nodes| {
        let mut limits = Limits::default();
        limits.nodes = nodes;
        limits
    };
    for unit in [&b"]"[..], b"N", b"(", b"K\x01"] {
        let error = evaluate(&unit.repeat(1000), 0, &limits(500)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    }
    // The pickle stores one value under many memo numbers. Lists, dicts and tuples refer to the
    // same values many times.
    let numbers: Vec<u8> = (0..1000_u32).flat_map(|n| [&b"r"[..], &n.to_le_bytes()].concat()).collect();
    let again = |before: &[u8], unit: &[u8]| [b"Nq\0", before, &unit.repeat(10_000)].concat();
    for bad in [
        [b"N", &numbers[..]].concat(),
        again(b"]", b"h\0a"),
        again(b"}", b"h\0h\0s"),
        again(b"", b"(h\0h\0h\0t0"),
    ] {
        let error = evaluate(&bad, 0, &limits(500)).unwrap_err();
        assert!(
            error.kind() == ErrorKind::Limit && format!("{error:?}").contains("--limit nodes=N"),
            "{error}"
        );
    }
    let deep = [&b"]".repeat(200_000)[..], &b"a".repeat(199_999), b"."].concat();
    drop(run(&deep));
}

#[test]
fn views_of_python_objects() {
    let pairs = list(&[list(&[text("k"), int(1)]), list(&[text("l"), int(2)])]);
    let old = call(&global("collections", "OrderedDict"), &[pairs]);
    let counter = call(&global("collections", "Counter"), &[dict(&[(text("k"), int(1))])]);
    let twice = dict(&[(text("k"), int(1)), (text("l"), int(2)), (text("k"), int(3))]);
    let bytes = call(&global("_codecs", "encode"), &[text("\u{ff}a"), text("latin1")]);
    let wide = call(&global("_codecs", "encode"), &[text("\u{100}"), text("latin1")]);
    let EvaluatedPickle { graph, root, .. } = run(&pickle(&tuple(&[old, counter, twice, bytes, wide])));
    let &[old, counter, twice, bytes, wide] = graph.tuple(root).unwrap() else { panic!("five items") };
    let entries = |id| {
        let entries: Vec<_> = graph.entries(id).unwrap();
        entries
            .iter()
            .map(|&(k, v)| (graph.text(k).unwrap().to_owned(), graph.int(v).unwrap()))
            .collect::<Vec<_>>()
    };
    assert_eq!(entries(old), [("k".to_owned(), 1), ("l".to_owned(), 2)]);
    assert_eq!(entries(counter), [("k".to_owned(), 1)]);
    assert_eq!(entries(twice), [("k".to_owned(), 3), ("l".to_owned(), 2)]);
    assert_eq!(graph.entry(twice, "l").and_then(|id| graph.int(id)), Some(2));
    assert_eq!(graph.bytes(bytes).as_deref(), Some(&b"\xffa"[..]));
    assert_eq!(graph.bytes(wide), None);
}

#[test]
fn pickles_in_a_row_are_taken_one_by_one() {
    let bytes = b"\x80\x02K\x01.\x80\x02K\x02.";
    assert_eq!(run(bytes).len, 5);
    assert_eq!(run(&bytes[5..]).len, 5);
}
