//! Tests a row plugin that uses a different major version of Arrow than the SDK. Rows are passed as
//! C streams.

use crate::outside;
use tensorferry_tests::{Ferry, args};

#[test]
#[ignore = "builds crates out of the workspace"]
fn rows_of_another_arrow_come_and_go() {
    let ferry = Ferry::new();
    ferry.add_plugin(&outside::library("other-arrow"));
    let lines: String = (0..1000).map(|number| format!("{number}\tthe text of {number}\n")).collect();
    let input = ferry.write("in.pairs", &lines);
    let [parquet, back, some] = ferry.paths(["a.parquet", "back.pairs", "some.jsonl"]);
    ferry.convert(&input, &parquet, &["--verify"]);
    ferry.convert(&parquet, &back, &["--verify"]);
    assert_eq!(std::fs::read_to_string(&back).unwrap(), lines);
    // The host itself selects the rows and columns of the stream.
    ferry.convert(&input, &some, &["--step", "filter:number>=998", "--step", "map:select,columns=text"]);
    assert_eq!(
        std::fs::read_to_string(&some).unwrap(),
        "{\"text\":\"the text of 998\"}\n{\"text\":\"the text of 999\"}\n"
    );
    let cut = ferry.write("cut.pairs", "1\tone\n2\ttw");
    let outcome = ferry.run(args!["convert", cut, ferry.at("cut.parquet")]).expect(3);
    outcome.says(&["a line break", "cut.pairs", "offset 6"]);
    let other = ferry.write("other.jsonl", "{\"a\": [1]}\n");
    ferry.run(args!["convert", other, ferry.at("other.pairs")]).expect(3).says(&["one int64 and one text"]);
}
