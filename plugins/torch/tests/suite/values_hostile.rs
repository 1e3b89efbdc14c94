//! Tests handmade composite tensors, arrays and modules, each of which is invalid in one way. Each
//! must produce a typed error or a loss without a panic, in bounded time and memory.

use std::time::{Duration, Instant};
use tensorferry_sdk::memory::MemoryView;
use tensorferry_sdk::{Catalog, ErrorKind, Limits, LossKind, MemoryContext, MemorySource, Result};
use tensorferry_test_kit::pickle::{
    call, dict, global, int, ints, list, pickle, storage, tensor, text, tuple,
};
use tensorferry_test_kit::zip::Zip;
use tensorferry_torch::Torch;

const FLOATS: &str = "dequantize";
const DENSE: &str = "densify";

/// Reads an object whose storages contain 64-bit integers, including all of its tensors.
fn read(object: &[u8], storages: &[&[i64]], decoding: &str, limits: Limits) -> Result<Catalog> {
    let storages: Vec<Vec<u8>> =
        storages.iter().map(|numbers| numbers.iter().flat_map(|n| n.to_le_bytes()).collect()).collect();
    let storages: Vec<&[u8]> = storages.iter().map(Vec::as_slice).collect();
    let file = Zip::torch(&pickle(object), &storages).bytes();
    let (source, context) = (MemorySource::file("model.pt", file), MemoryContext::new(limits));
    let value = if decoding == FLOATS { "f32" } else { "true" };
    let given = [(decoding.to_owned(), value.to_owned())];
    let given = if decoding.is_empty() { &[] } else { &given[..] };
    let view = MemoryView::read(&Torch, given, &source, &context)?;
    for tensor in view.catalog().tensors() {
        view.tensor_named(&tensor.name)?;
    }
    Ok(view.catalog().clone())
}

fn refused(object: &[u8], storages: &[&[i64]], decoding: &str) -> String {
    let error = read(object, storages, decoding, Limits::default()).err();
    error.unwrap_or_else(|| panic!("read: {}", object.escape_ascii())).to_string()
}

/// Checks that there is exactly one loss of kind `tensor`, and that the tensors in `left` remain.
/// Returns the reason for the loss.
fn lost(object: &[u8], storages: &[&[i64]], decoding: &str, left: &[&str]) -> String {
    let catalog = read(object, storages, decoding, Limits::default()).unwrap();
    let names: Vec<&str> = catalog.tensors().iter().map(|tensor| &*tensor.name).collect();
    assert_eq!(names, left);
    let losses: Vec<_> = catalog.losses().iter().filter(|loss| loss.kind == LossKind::Tensor).collect();
    assert_eq!(losses.len(), 1, "{losses:?}");
    losses[0].why.clone()
}

fn expanding_to(bytes: u64) -> Limits {
    let mut limits = Limits::default();
    limits.expanded_bytes = bytes;
    limits
}

fn float(value: f64) -> Vec<u8> {
    [b"G", &value.to_be_bytes()[..]].concat()
}

fn longs(key: &str, size: &[i64], stride: &[i64], stored: i64) -> Vec<u8> {
    tensor(storage("LongStorage", key, stored), 0, size, stride)
}

/// Builds a quantized tensor of four 8-bit integers.
fn quantized(parameters: &[Vec<u8>]) -> Vec<u8> {
    let hooks = call(&global("collections", "OrderedDict"), &[]);
    let storage = storage("QInt8Storage", "0", 8);
    let arguments =
        [storage, int(0), ints(&[2, 2]), ints(&[2, 1]), tuple(parameters), b"\x89".to_vec(), hooks];
    dict(&[(text("q"), call(&global("torch._utils", "_rebuild_qtensor"), &arguments))])
}

fn channels(scales: Vec<u8>, zero_points: Vec<u8>, axis: i64) -> Vec<u8> {
    quantized(&[global("torch", "per_channel_affine"), scales, zero_points, int(axis)])
}

#[test]
fn scales_and_zero_points_have_to_fit() {
    let numbers = |count| list(&vec![int(1); count]);
    for (object, says) in [
        (channels(numbers(2), numbers(2), 2), "axis"),
        (channels(numbers(2), numbers(2), -1), "axis"),
        (channels(numbers(3), numbers(2), 0), "number of scales"),
        (channels(numbers(2), numbers(0), 0), "number of scales"),
        (channels(longs("1", &[1 << 40], &[0], 1), numbers(2), 0), "number of scales"),
        (channels(text("x"), numbers(2), 0), "wrong type"),
        (quantized(&[global("torch", "per_tensor_affine"), float(1.0)]), "is unknown"),
        (quantized(&[]), "wrong type"),
    ] {
        for decoding in ["", FLOATS] {
            let found = read(&object, &[&[0], &[0]], decoding, Limits::default());
            let text =
                found.map_or_else(|error| error.to_string(), |catalog| catalog.losses()[0].why.clone());
            assert!(text.contains(says), "{says}: {text}");
        }
    }
    let out_of_range = quantized(&[global("torch", "per_tensor_affine"), float(1.0), int(128)]);
    assert!(read(&out_of_range, &[&[0]], "", Limits::default()).is_ok());
    assert!(refused(&out_of_range, &[&[0]], FLOATS).contains("zero point"));
    let out_of_range = channels(list(&[float(0.5), float(1.0)]), list(&[int(0), int(-129)]), 0);
    assert!(refused(&out_of_range, &[&[0]], FLOATS).contains("zero point"));
    let not_finite = quantized(&[global("torch", "per_tensor_affine"), float(f64::NAN), int(0)]);
    assert!(read(&not_finite, &[&[0]], FLOATS, Limits::default()).is_ok());
    let unknown = quantized(&[global("torch", "per_tensor_symmetric"), float(1.0)]);
    assert!(lost(&unknown, &[&[0]], "", &[]).contains("per_tensor_symmetric"));
}

fn layout(name: &str) -> Vec<u8> {
    call(&global("torch.serialization", "_get_layout"), &[text(name)])
}

fn sparse(name: &str, parts: &[Vec<u8>]) -> Vec<u8> {
    let function = global("torch._utils", "_rebuild_sparse_tensor");
    dict(&[(text("s"), call(&function, &[layout(name), tuple(parts)]))])
}

/// Builds a sparse tensor of I64 values in one sparse dimension.
fn coo(indices: &[i64], size: i64) -> (Vec<u8>, Vec<i64>) {
    let count = i64::try_from(indices.len()).unwrap();
    let parts =
        [longs("0", &[1, count], &[count, 1], count), longs("1", &[count], &[1], count), ints(&[size])];
    (sparse("torch.sparse_coo", &parts), vec![1; indices.len()])
}

#[test]
fn indices_have_to_be_inside() {
    for (indices, size) in [(&[0, 4][..], 4), (&[-1], 4), (&[i64::MAX], 4), (&[i64::MIN], i64::MAX)] {
        let (object, values) = coo(indices, size);
        assert!(read(&object, &[indices, &values], "", Limits::default()).is_ok());
        let limits = expanding_to(u64::MAX);
        let error = read(&object, &[indices, &values], DENSE, limits).err().unwrap().to_string();
        assert!(error.contains("out of bounds") || error.contains("64 bits"), "{error}");
    }
    let rows = |starts: &[i64], columns: &[i64]| {
        let [starts, columns] = [starts, columns].map(|part| i64::try_from(part.len()).unwrap());
        let parts = [
            longs("0", &[starts], &[1], starts),
            longs("1", &[columns], &[1], columns),
            longs("1", &[columns], &[1], columns),
            ints(&[2, 3]),
        ];
        sparse("torch.sparse_csr", &parts)
    };
    for (starts, columns) in [
        (&[0, 1, 3][..], &[0, 1][..]),
        (&[1, 1, 2], &[0, 1]),
        (&[0, 3, 2], &[0, 1]),
        (&[0, -1, 2], &[0, 1]),
        (&[0, 1, 2], &[0, 3]),
        (&[0, 1], &[0]),
    ] {
        refused(&rows(starts, columns), &[starts, columns], DENSE);
    }
    assert!(read(&rows(&[0, 1, 2], &[0, 2]), &[&[0, 1, 2], &[0, 2]], DENSE, Limits::default()).is_ok());
}

#[test]
fn parts_of_sparse_tensors_have_to_fit_each_other() {
    let one = || longs("0", &[1, 1], &[1, 1], 1);
    for parts in [
        vec![one(), one(), ints(&[2])],
        vec![one(), longs("0", &[2], &[0], 1), ints(&[2])],
        vec![one(), longs("0", &[1], &[1], 1), ints(&[])],
        vec![one(), longs("0", &[1], &[1], 1), ints(&[2, 3])],
        vec![longs("0", &[1], &[1], 1), longs("0", &[1], &[1], 1), ints(&[2])],
        vec![longs("0", &[1 << 40, 1], &[0, 0], 1), longs("0", &[1], &[1], 1), ints(&[2])],
        vec![one(), longs("0", &[1], &[1], 1), ints(&[-2])],
        vec![one(), one()],
    ] {
        refused(&sparse("torch.sparse_coo", &parts), &[&[0]], DENSE);
    }
    let blocks = |size: &[i64], block: &[i64]| {
        let parts = [
            longs("1", &[2], &[1], 2),
            longs("0", &[1], &[1], 1),
            longs("0", &[&[1], block].concat(), &vec![0; block.len() + 1], 1),
            ints(size),
        ];
        sparse("torch.sparse_bsr", &parts)
    };
    for (size, block) in [(&[2, 2][..], &[0, 2][..]), (&[3, 2], &[2, 2]), (&[2, 2], &[2]), (&[], &[2, 2])] {
        refused(&blocks(size, block), &[&[0], &[0, 1]], DENSE);
    }
    assert!(read(&blocks(&[2, 2], &[2, 2]), &[&[0], &[0, 1]], DENSE, Limits::default()).is_ok());
    let hidden = vec![text("x"), longs("0", &[1], &[1], 1), ints(&[2])];
    assert!(
        lost(&sparse("torch.sparse_coo", &hidden), &[&[0]], "", &["s.values", "s.shape"])
            .contains("not a plain")
    );
    let unknown = sparse("torch.mkldnn", &[]);
    assert!(lost(&unknown, &[&[0]], "", &[]).contains("layout"));
}

#[test]
fn dense_bombs_end_in_a_limit_soon() {
    let begin = Instant::now();
    for (bits, kind) in [(62, ErrorKind::Malformed), (60, ErrorKind::Limit), (34, ErrorKind::Limit)] {
        let (object, values) = coo(&[0], 1 << bits);
        let error = read(&object, &[&[0], &values], DENSE, Limits::default()).err().unwrap();
        assert_eq!(error.kind(), kind, "{error}");
    }
    let many = 1 << 40;
    let parts = [longs("0", &[1, many], &[0, 0], 1), longs("0", &[many], &[0], 1), ints(&[1])];
    let error = read(&sparse("torch.sparse_coo", &parts), &[&[0]], DENSE, Limits::default()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    let wide = channels(longs("1", &[2], &[1], 2), longs("1", &[2], &[1], 2), 0);
    let limits = expanding_to(0);
    assert!(read(&wide, &[&[0], &[0, 0]], FLOATS, limits).is_ok());
    assert!(begin.elapsed() < Duration::from_secs(5));
}

fn array(dtype: Vec<u8>, shape: &[i64], data: Vec<u8>) -> Vec<u8> {
    let function = global("numpy._core.multiarray", "_reconstruct");
    let made = call(&function, &[global("numpy", "ndarray"), ints(&[0]), text("b")]);
    let state = tuple(&[int(1), ints(shape), dtype, b"\x89".to_vec(), data]);
    dict(&[(text("a"), [made, state, b"b".to_vec()].concat())])
}

fn dtype(code: &str) -> Vec<u8> {
    call(&global("numpy", "dtype"), &[text(code), b"\x89".to_vec(), b"\x88".to_vec()])
}

#[test]
fn arrays_have_the_length_of_their_shape() {
    let data = || call(&global("_codecs", "encode"), &[text("\u{1}\u{2}"), text("latin1")]);
    for shape in [&[3][..], &[1 << 62, 8], &[]] {
        let says = refused(&array(dtype("u1"), shape, data()), &[], "");
        assert!(says.contains("its shape") || says.contains("64 bits"), "{says}");
    }
    assert!(read(&array(dtype("u1"), &[2, 1], data()), &[], "", Limits::default()).is_ok());
    let endless = format!("V{}", "9".repeat(100_000));
    for dtype in
        [dtype(&endless), dtype(""), dtype("f3"), dtype("\u{e9}8"), text("f4"), global("numpy", "float32")]
    {
        let why = lost(&array(dtype, &[2], data()), &[], "", &[]);
        assert!(why.len() < 200, "{}", why.len());
    }
    for state in [text("x"), tuple(&[]), dict(&[])] {
        let function = global("numpy._core.multiarray", "_reconstruct");
        let object = dict(&[(text("a"), [call(&function, &[]), state, b"b".to_vec()].concat())]);
        lost(&object, &[], "", &[]);
    }
}

/// Builds a module from its parameters and its submodules, both of which are pickled dicts.
fn module(class: &str, parameters: &[u8], modules: &[u8]) -> Vec<u8> {
    let state = [
        (text("_parameters"), parameters.to_vec()),
        (text("_buffers"), dict(&[])),
        (text("_modules"), modules.to_vec()),
    ];
    [&global("m", class)[..], b")\x81", &dict(&state)[..], b"b"].concat()
}

#[test]
fn a_module_that_contains_itself_is_cut_there() {
    // The pickle memoizes the module and refers to it again among the module's own submodules.
    let own = dict(&[(text("me"), b"h\x01".to_vec()), (text("x"), int(1))]);
    let weight = dict(&[(text("w"), longs("0", &[1], &[1], 1)), (int(3), longs("0", &[1], &[1], 1))]);
    let head = [&global("m", "M")[..], b")\x81q\x01"].concat();
    let state =
        dict(&[(text("_parameters"), weight), (text("_buffers"), dict(&[])), (text("_modules"), own)]);
    let object = [head, state, b"b".to_vec()].concat();
    let catalog = read(&object, &[&[0]], "", Limits::default()).unwrap();
    let names: Vec<&str> = catalog.tensors().iter().map(|tensor| &*tensor.name).collect();
    assert_eq!(names, ["w", "3"]);
    let reported: Vec<&str> = catalog.losses().iter().map(|loss| &*loss.what).collect();
    assert_eq!(reported, ["me", "x", ""]);
}

#[test]
fn modules_nest_and_unfold_within_limits() {
    let begin = Instant::now();
    // The modules form a chain that is built from the inside out. Each module is the only submodule
    // of the next module.
    let mut chain = module("M", &dict(&[]), &dict(&[]));
    for _ in 0..300 {
        chain = module("M", &dict(&[]), &dict(&[(text("m"), chain)]));
    }
    let error = read(&chain, &[], "", Limits::default()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    // Each module contains the previous module twice.
    let weight = dict(&[(text("w"), longs("0", &[1], &[1], 1))]);
    let mut object = [module("M", &weight, &dict(&[])), b"q\x00".to_vec()].concat();
    for level in 1..40_u8 {
        let before = [b"h", &[level - 1][..]].concat();
        let both = dict(&[(text("a"), before.clone()), (text("b"), before)]);
        object = [&object[..], b"0", &module("M", &dict(&[]), &both), b"q", &[level]].concat();
    }
    let error = read(&object, &[&[0]], "", Limits::default()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    assert!(begin.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_call_among_them_leaves_the_others() {
    let evil = call(&global("os", "system"), &[text("touch marker")]);
    let weight = dict(&[(text("w"), longs("0", &[1], &[1], 1)), (text("evil"), evil)]);
    let object = dict(&[(text("model"), module("M", &weight, &dict(&[])))]);
    let catalog = read(&object, &[&[7]], "", Limits::default()).unwrap();
    assert_eq!(catalog.tensors()[0].name, "model.w");
    assert!(catalog.globals().iter().any(|global| global == "os.system"));
    assert!(catalog.losses().iter().any(|loss| loss.what == "model.evil" && loss.why.contains("os.system")));
}

#[test]
fn parameters_of_old_torch_are_their_tensors() {
    let state = tuple(&[b"\x88".to_vec(), b"\x89".to_vec(), dict(&[])]);
    let weight = || longs("0", &[1], &[1], 1);
    let parameter = |data| {
        [call(&global("torch.nn.parameter", "Parameter"), &[data]), state.clone(), b"b".to_vec()].concat()
    };
    let tensor = [
        &global("torch", "LongTensor")[..],
        b")\x81",
        &tuple(&[storage("LongStorage", "0", 1), int(0), ints(&[1]), ints(&[1])]),
        b"b",
    ]
    .concat();
    let parameters = dict(&[(text("a"), parameter(weight())), (text("b"), parameter(tensor))]);
    let object = dict(&[(text("m"), module("M", &parameters, &dict(&[]))), (text("p"), parameter(weight()))]);
    let catalog = read(&object, &[&[7]], "", Limits::default()).unwrap();
    let names: Vec<&str> = catalog.tensors().iter().map(|tensor| &*tensor.name).collect();
    assert_eq!(names, ["m.a", "m.b", "p"]);
    let reported: Vec<&str> = catalog.losses().iter().map(|loss| &*loss.what).collect();
    assert_eq!(reported, ["p", "m"]);
}

/// Returns the pickle and the storages of a file that torch wrote.
fn taken_apart(name: &str) -> (Vec<u8>, Vec<Vec<u8>>) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/values").join(name);
    let mut archive = zip::ZipArchive::new(std::fs::File::open(path).unwrap()).unwrap();
    let root = archive.file_names().next().unwrap().unwrap().split('/').next().unwrap().to_owned();
    let mut record = |name: String| {
        let mut bytes = Vec::new();
        let mut found = archive.by_name(&format!("{root}/{name}")).ok()?;
        std::io::copy(&mut found, &mut bytes).unwrap();
        Some(bytes)
    };
    let pickle = record("data.pkl".to_owned()).unwrap();
    (pickle, (0..).map_while(|key| record(format!("data/{key}"))).collect())
}

#[test]
fn any_changed_byte_of_a_pickle_is_survived() {
    let files = ["quantized.pt", "sparse.pt", "classes.pt", "numpy.pt", "numpy_protocol5.pt", "modules.pt"];
    let mut read_in_part = 0;
    for name in files {
        let (pickle, storages) = taken_apart(name);
        let storages: Vec<&[u8]> = storages.iter().map(Vec::as_slice).collect();
        for at in (0..pickle.len()).step_by(7) {
            let mut changed = pickle.clone();
            changed[at] = changed[at].wrapping_add([1, 128, 255][at % 3]);
            let source = MemorySource::file("model.pt", Zip::torch(&changed, &storages).bytes());
            let mut limits = expanding_to(1 << 20);
            limits.header_bytes = 1 << 20;
            let context = MemoryContext::new(limits);
            let option = [(FLOATS, "f32"), (DENSE, "true")][at / 7 % 2];
            let given = [(option.0.to_owned(), option.1.to_owned())];
            let Ok(view) = MemoryView::read(&Torch, &given, &source, &context) else { continue };
            let small = view.catalog().tensors().iter().filter(|tensor| tensor.bytes < 1 << 20);
            for tensor in small {
                // The reader may also fail with an error.
                let _ = view.tensor_named(&tensor.name);
            }
            read_in_part += 1;
        }
    }
    assert!(read_in_part > 100, "{read_in_part} were read");
}
