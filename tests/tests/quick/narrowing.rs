//! Tests that readers skip only rows and columns that the steps remove. The results of readers that
//! skip data are compared with their results after a step that prevents skipping.

use serde_json::json;
use std::path::{Path, PathBuf};
use tensorferry_test_kit::random::Random;
use tensorferry_tests::Ferry;

const ROWS: usize = 1000;
/// A step that changes nothing, and prevents readers from skipping rows and columns.
const BLIND: &str = "shard:1,index=0";

/// Writes rows with all kinds of columns, sorted by one of them, in four files of ten row groups
/// each.
fn input(ferry: &Ferry, random: &mut Random) -> PathBuf {
    let mut text = String::new();
    for row in 0..ROWS {
        let mut any = |below: usize| random.below(below);
        let mut line = json!({
            "id": row,
            "few": i64::try_from(any(7)).unwrap() - 3,
            "real": f64::from(u32::try_from(any(1000)).unwrap()) / 8.0,
            "word": format!("w{:03}", any(300)),
            "flag": any(2) == 1,
            "person": {"age": any(90), "name": format!("n{}", any(20)), "home": {"city": any(9)}},
            "list": vec![1; any(4)],
        });
        for name in ["few", "real", "word", "person"] {
            if any(5) == 0 {
                line[name] = serde_json::Value::Null;
            }
        }
        text += &format!("{line}\n");
    }
    ferry.write("rows.jsonl", text)
}

fn comparison(random: &mut Random) -> String {
    let mut any = |below: usize| random.below(below);
    let operator = ["=", "!=", "<", "<=", ">", ">="][any(6)];
    match any(11) {
        0 => format!("id {operator} {}", any(1100)),
        1 => format!("{} {operator} id", any(1100)),
        2 => format!("few {operator} {}.5", any(3)),
        3 => format!("real {operator} {}", any(130)),
        4 => format!("word {operator} 'w{:02}'", any(30)),
        5 => ["flag", "not flag", "flag = false"][any(3)].to_owned(),
        6 => format!("person.age {operator} {}", any(90)),
        7 => format!("person.home.city {operator} {}", any(9)),
        8 => ["few is null", "person is not null", "person.name is null", "word is null"][any(4)].to_owned(),
        9 => format!("id = {} or id = {} or {} = id", any(1000), any(1000), any(1000)),
        _ => format!("len(list) {operator} {}", any(4)),
    }
}

fn step(random: &mut Random) -> String {
    match random.below(8) {
        0 | 1 => format!("skip:{}", random.below(1100)),
        2 => format!("take:{}", random.below(1100)),
        3 | 4 => {
            let mut expression = comparison(random);
            for _ in 0..random.below(3) {
                let join = ["and", "and", "or"][random.below(3)];
                expression = format!("{expression} {join} {}", comparison(random));
            }
            format!("filter:{expression}")
        }
        5 | 6 => "map:cast,columns=id,to=int32".to_owned(),
        _ => "repeat:2".to_owned(),
    }
}

fn rows(ferry: &Ferry, input: &Path, steps: &[String]) -> String {
    let output = ferry.at("out.jsonl");
    let mut arguments = vec!["--force".to_owned(), "--allow-empty".to_owned()];
    for step in steps {
        arguments.extend(["--step".to_owned(), step.clone()]);
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    ferry.convert(input, &output, &arguments);
    std::fs::read_to_string(&output).unwrap()
}

#[test]
fn readers_leave_out_what_steps_leave_out() {
    let ferry = Ferry::new();
    let mut random = Random::new(16);
    let lines = input(&ferry, &mut random);
    let [groups, records, files] = ["groups.parquet", "rows.tfrecord", "files/"].map(|name| ferry.at(name));
    ferry.convert(&lines, &groups, &["-o", "row_group_rows=37"]);
    ferry.convert(&lines, &files, &["--to", "parquet", "-o", "row_group_rows=50", "-o", "shards=4"]);
    // TFRecord does not support structs.
    let flat = "map:select,columns=id few real word";
    ferry.convert(&lines, &records, &["--step", flat]);
    let (mut cases, mut emptied) = (0, 0);
    for _ in 0..30 {
        let mut steps: Vec<String> = (0..=random.below(3)).map(|_| step(&mut random)).collect();
        match random.below(4) {
            0 | 1 => steps.push("map:select,columns=id word person.age person.home.city".to_owned()),
            2 => steps.push("map:drop,columns=word,columns=real".to_owned()),
            _ => {}
        }
        let blind: Vec<String> = std::iter::once(BLIND.to_owned()).chain(steps.iter().cloned()).collect();
        let whole = rows(&ferry, &lines, &blind);
        for input in [&lines, &groups, &files] {
            let narrowed = rows(&ferry, input, &steps);
            assert!(narrowed == whole, "{input:?} {steps:?}:\n{narrowed}\n{whole}");
            cases += 1;
            emptied += u32::from(whole.is_empty());
        }
    }
    for steps in [["skip:990", "take:5"], ["take:40", "skip:31"], ["skip:3", "filter:id < 9"]] {
        let steps = steps.map(str::to_owned);
        let blind = [&[BLIND.to_owned()][..], &steps].concat();
        assert_eq!(rows(&ferry, &records, &steps), rows(&ferry, &records, &blind), "{steps:?}");
    }
    assert!(cases == 90 && emptied < 45, "{cases} cases, {emptied} without a row");
}
