//! Tests that metadata of rows and columns is kept if the output format has a place for it, and
//! reported as lost otherwise.

use std::sync::Arc;
use tensorferry_sdk::arrow_array::{ArrayRef, Int64Array, RecordBatch};
use tensorferry_sdk::arrow_schema::{DataType, Field, Schema};
use tensorferry_sdk::memory::records;
use tensorferry_sdk::{MemoryContext, MemorySource, Target};
use tensorferry_tests::{Ferry, args};

fn format() -> Box<dyn tensorferry_sdk::Format> {
    tensorferry_parquet::formats().into_iter().next().unwrap()
}

fn schema() -> Schema {
    let field = Field::new("n", DataType::Int64, true).with_metadata([("unit", "mm")]);
    Schema::new_with_metadata(vec![field], [("about", "lengths")])
}

#[test]
fn it_stays_in_parquet_and_is_told_elsewhere() {
    let ferry = Ferry::new();
    let column: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let batch = RecordBatch::try_new(Arc::new(schema()), vec![column]).unwrap();
    let (context, target) = (MemoryContext::default(), Target::File("a.parquet".to_owned()));
    let written =
        records::write(&*format(), &[], &batch.schema(), &[vec![batch]], &target, &context).unwrap().files;
    let input = ferry.write("a.parquet", &written["a.parquet"]);

    let kept = ferry.at("kept.parquet");
    ferry.convert(&input, &kept, &["--strict", "--step", "take:1"]);
    let source = Arc::new(MemorySource::file("kept.parquet", std::fs::read(&kept).unwrap()));
    let found = records::open(&*format(), &[], source, &context).unwrap().schema();
    assert_eq!(found.metadata().get("about").map(String::as_str), Some("lengths"));
    assert_eq!(found.field(0).metadata().get("unit").map(String::as_str), Some("mm"));

    for name in ["a.jsonl", "a.tfrecord"] {
        let output = ferry.at(name);
        ferry.convert(&input, &output, &[]).says(&["metadata", "about", "n: unit", "no place"]);
        let strict = ferry.run(args!["convert", "--force", "--strict", input, output]);
        assert_ne!(strict.code, Some(0), "{strict}");
        ferry.convert(&input, &output, &["--force", "--strict", "--allow-loss", "metadata"]);
    }
}
