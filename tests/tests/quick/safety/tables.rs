//! Tests of tables that a reader loads from pickles (DCP's `.metadata`, DeepSpeed's states, a
//! config of `torch.export`), and that refer to one value a million times. Such tables must lead to
//! a typed error, in bounded time and memory.

use super::bombs::{read, short};
use super::containers::{Files, Table, chunk, described, described_tensor, index, place, size, stored};
use tensorferry_test_kit::pickle::{dict, global, int, list, pickle, text, tuple};
use tensorferry_test_kit::zip::Zip;
use tensorferry_tests::Ferry;

/// A count that is large enough to expose quadratic costs.
const ENOUGH: usize = 200_000;
/// A count of entries, each of which causes a file to be opened.
const OPENINGS: usize = 20_000;

/// Returns a pickle that stores a value in the memo under a number, and drops the value from the
/// stack.
fn remembered(value: &[u8], number: u8) -> Vec<u8> {
    [value, &[b'q', number, b'0']].concat()
}

fn again(number: u8) -> Vec<u8> {
    vec![b'h', number]
}

fn names(count: usize) -> impl Iterator<Item = Vec<u8>> {
    (0..count).map(|at| text(&format!("t{at}")))
}

/// Returns a distributed checkpoint with this data file and this table. `before` contains values to
/// which the table refers.
fn distributed(before: &[u8], table: &Table, data: &[u8]) -> Files {
    let metadata = pickle(&[before, &table.metadata()].concat());
    let files = [(".metadata", metadata), ("__0_0.distcp", data.to_vec())];
    Files { container: "distributed", files: files.map(|(name, bytes)| (name.to_owned(), bytes)).into() }
}

/// Returns an archive whose pickle is slow to read, but contains nothing.
fn slow() -> Vec<u8> {
    let numbers = list(&vec![int(1 << 20); ENOUGH]);
    Zip::torch(&pickle(&numbers), &[]).bytes()
}

fn all_are_refused(cases: &[(&str, Files)]) {
    let ferry = Ferry::new();
    let mut wrong = Vec::new();
    for (name, files) in cases {
        let outcome = read(&ferry, files);
        if outcome.code != Some(3) {
            wrong.push(format!("{name}: {}", short(&outcome)));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n\n{}", wrong.len(), cases.len(), wrong.join("\n\n"));
}

#[test]
fn distributed_tables() {
    let wide: Vec<_> = (0..ENOUGH).map(|at| (text(&format!("a{at}")), b"N".to_vec())).collect();
    let wide_index = [
        &global("torch.distributed.checkpoint.metadata", "MetadataIndex")[..],
        b")\x81",
        &dict(&[&wide[..], &[(text("fqn"), text("x"))]].concat()),
        b"b",
    ]
    .concat();
    let slow = slow();
    let mut one_place = Table::default();
    for name in names(OPENINGS) {
        one_place.described.push((name.clone(), again(1)));
        one_place.stored.push((index(&name, b"N".to_vec()), again(2)));
    }
    let places = [remembered(&described(), 1), remembered(&place(slow.len()), 2)].concat();
    let mut chunks_of_all = Table::default();
    let many_chunks = list(&vec![again(1); 3000]);
    let shared_tensor =
        [remembered(&chunk(&[4], &[0]), 1), remembered(&described_tensor(&[4], many_chunks), 2)];
    chunks_of_all.described.extend(names(3000).map(|name| (name, again(2))));
    let wide_keys = Table {
        described: vec![(text("x"), described())],
        stored: (0..ENOUGH).map(|_| (again(1), again(2))).collect(),
    };
    all_are_refused(&[
        (
            "an index with many attributes, many times",
            distributed(
                &[remembered(&wide_index, 1), remembered(&place(slow.len()), 2)].concat(),
                &wide_keys,
                &slow,
            ),
        ),
        ("one archive as many objects", distributed(&places, &one_place, &slow)),
        ("one list of chunks for many tensors", distributed(&shared_tensor.concat(), &chunks_of_all, &slow)),
        ("an object that is longer than its file", {
            let table = Table {
                described: vec![(text("x"), described())],
                stored: vec![stored("x", usize::MAX >> 1)],
            };
            distributed(b"", &table, &slow)
        }),
    ]);
}

/// Returns a stage 2 checkpoint with these model states.
fn deepspeed(before: &[u8], model: &[(&str, Vec<u8>)]) -> Files {
    let saved = |value: Vec<u8>| Zip::torch(&pickle(&value), &[]).bytes();
    let entries: Vec<_> = model.iter().map(|(key, value)| (text(key), value.clone())).collect();
    let states = dict(&[
        (text("zero_stage"), int(2)),
        (text("partition_count"), int(1)),
        (text("single_partition_of_fp32_groups"), list(&[])),
    ]);
    let files = [
        ("latest", b"step".to_vec()),
        ("step/mp_rank_00_model_states.pt", saved([before, &dict(&entries)].concat())),
        (
            "step/zero_pp_rank_0_mp_rank_00_optim_states.pt",
            saved(dict(&[(text("optimizer_state_dict"), states)])),
        ),
        ("step/zero/t0/fp32.pt", slow()),
    ];
    Files { container: "deepspeed", files: files.map(|(name, bytes)| (name.to_owned(), bytes)).into() }
}

#[test]
fn deepspeed_states() {
    let shapes = |count: usize| dict(&names(count).map(|name| (name, size(&[2, 3]))).collect::<Vec<_>>());
    let model =
        |groups: Vec<u8>| [("module", dict(&[])), ("buffer_names", list(&[])), ("param_shapes", groups)];
    let one_group = remembered(&shapes(3000), 1);
    let mut universal = deepspeed(b"", &model(list(&vec![shapes(1); OPENINGS])));
    universal.files.push(("step/zero/optimizer_state.pt".to_owned(), slow()));
    let dims = remembered(&tuple(&vec![int(1); 64]), 1);
    let of_dims = dict(&names(ENOUGH).map(|name| (name, again(1))).collect::<Vec<_>>());
    all_are_refused(&[
        ("one group of parameters, many times", deepspeed(&one_group, &model(list(&vec![again(1); 3000])))),
        ("one parameter's file, many times", universal),
        ("one shape of many parameters, and no vectors", deepspeed(&dims, &model(list(&[of_dims])))),
    ]);
}

#[test]
fn configs_of_exported_programs() {
    let entry = r#"{"path_name": "weight_0", "use_pickle": true, "tensor_meta": null}"#;
    let entries: Vec<String> = (0..OPENINGS).map(|at| format!("\"t{at}\": {entry}")).collect();
    let mut zip = Zip::default();
    zip.add("archive_format", b"pt2");
    zip.add("models/model.json", b"{}");
    zip.add("data/weights/weight_0", &slow());
    zip.add(
        "data/weights/model_weights_config.json",
        format!("{{\"config\": {{{}}}}}", entries.join(",")).as_bytes(),
    );
    zip.add(".data/version", b"6\n");
    let files = Files { container: "exported", files: vec![("model.pt2".to_owned(), zip.bytes())] };
    // Each name has its own nodes for the contents of the record, so the total number of nodes
    // exceeds the limit.
    all_are_refused(&[("one pickled record of many names", files)]);
}
