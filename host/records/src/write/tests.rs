//! Tests the order of pieces, rolled files, and pieces that are longer than a file.
#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::batch_bytes::batch_bytes;
use crate::flow::from_fn;
use arrow_array::{Int32Array, cast::AsArray, types::Int32Type};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tensorferry_publish::stage::{Destination, DestinationKind, Stage};
use tensorferry_sdk::{ErrorKind, LossSink};

/// A plan with two files. The encoding of a piece consists of its numbers. Each number occurs as many
/// times as its value. The writer returns the count of numbers as the note for the piece.
struct Repeated([String; 2]);

/// Returns the encoding of one number of a piece.
fn bytes(number: i32) -> Vec<u8> {
    number.to_le_bytes().repeat(usize::try_from(number % 7).unwrap() * 20_000 + 3)
}

impl RecordPlan for Repeated {
    fn files(&self) -> &[String] {
        &self.0
    }

    fn group(&self) -> Group {
        Group { rows: 5, ..Group::default() }
    }

    fn begin(&self, _file: usize, output: &mut dyn ByteSink) -> Result<()> {
        output.write(b"head")
    }

    fn encode(
        &self,
        batches: &[RecordBatch],
        output: &mut dyn ByteSink,
        _losses: &mut dyn LossSink,
    ) -> Result<Vec<u8>> {
        let mut count = 0;
        for &number in batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int32Type>().values()) {
            // Some pieces take longer to encode, so that the next pieces must wait for them.
            std::thread::sleep(std::time::Duration::from_millis(u64::from(number % 11 == 0)));
            if number == 999 {
                return Err(Error::unsupported("999"));
            }
            output.write(&bytes(number))?;
            count += 1;
        }
        Ok(vec![count])
    }

    fn finish(&self, _file: usize, pieces: &[PlacedPiece], output: &mut dyn ByteSink) -> Result<()> {
        let mut end = 4;
        for piece in pieces {
            assert_eq!((piece.offset, piece.rows), (end, u64::from(piece.note[0])));
            end += piece.len;
        }
        output.write(b"tail")
    }
}

fn written(numbers: i32, threads: usize) -> Result<[Vec<u8>; 2]> {
    let plan = Repeated(["a", "b"].map(str::to_owned));
    let files = files_of(&plan, numbers, threads, u64::try_from(numbers).ok())?;
    Ok(plan.0.each_ref().map(|name| files[name].clone()))
}

fn files_of(
    plan: &dyn RecordPlan,
    numbers: i32,
    threads: usize,
    rows: Option<u64>,
) -> Result<BTreeMap<String, Vec<u8>>> {
    let folder = tempfile::tempdir().unwrap();
    let destination = Destination { folder: folder.path().join("out"), kind: DestinationKind::Folder };
    let stage = Stage::begin(&destination)?;
    let column = || Arc::new((0..numbers).collect::<Int32Array>()) as _;
    let batch = RecordBatch::try_from_iter([("number", column())]).unwrap();
    let mut batches = Some(batch.clone()).filter(|batch| batch.num_rows() > 0);
    let mut flow = from_fn(batch.schema(), || Ok(batches.take()));
    let session = Session::new(threads, 1 << 30);
    let mut hasher = RowHasher::new(Vec::new(), plan.files().len());
    let written = write(&mut *flow, plan, rows, batch_bytes, Some(&mut hasher), &stage, &session)?;
    let hashed: Vec<u64> = hasher.finish().iter().map(|file| file.rows).collect();
    assert_eq!(hashed, written.files.iter().map(WrittenFile::rows).collect::<Vec<_>>());
    let names = written.files.iter().map(|file| (&file.name, file.bytes));
    let sealed = plan.sealed().iter().zip(written.sealed);
    let read = |(name, len): (&String, u64)| {
        let bytes = std::fs::read(stage.local_path(name).unwrap()).unwrap();
        assert_eq!(bytes.len() as u64, len, "{name}");
        (name.clone(), bytes)
    };
    Ok(names.chain(sealed).map(read).collect())
}

/// A plan with the same pieces in rolled files, and an additional file that lists the rolled files.
struct Rolling(Roll, [String; 1]);

impl RecordPlan for Rolling {
    fn files(&self) -> &[String] {
        &[]
    }

    fn roll(&self) -> Option<Roll> {
        Some(self.0)
    }

    fn name(&self, file: usize, count: usize) -> Result<String> {
        Ok(format!("{file}-of-{count}"))
    }

    fn group(&self) -> Group {
        Group { rows: 5, ..Group::default() }
    }

    fn begin(&self, file: usize, output: &mut dyn ByteSink) -> Result<()> {
        output.write(format!("head {file}").as_bytes())
    }

    fn encode(
        &self,
        batches: &[RecordBatch],
        output: &mut dyn ByteSink,
        losses: &mut dyn LossSink,
    ) -> Result<Vec<u8>> {
        Repeated([String::new(), String::new()]).encode(batches, output, losses)
    }

    fn finish(&self, _file: usize, pieces: &[PlacedPiece], output: &mut dyn ByteSink) -> Result<()> {
        output.write(&[u8::try_from(pieces.len()).unwrap()])
    }

    fn sealed(&self) -> &[String] {
        &self.1
    }

    fn seal(&self, _sealed: usize, files: &[WrittenFile], output: &mut dyn ByteSink) -> Result<()> {
        files.iter().try_for_each(|file| {
            output.write(format!("{} {} {}\n", file.name, file.rows(), file.bytes).as_bytes())
        })
    }
}

/// A plan that cancels its session and then writes endlessly, because it does not check the
/// session.
struct Endless([String; 1], Arc<AtomicBool>);

impl RecordPlan for Endless {
    fn files(&self) -> &[String] {
        &self.0
    }

    fn encode(
        &self,
        _batches: &[RecordBatch],
        output: &mut dyn ByteSink,
        _losses: &mut dyn LossSink,
    ) -> Result<Vec<u8>> {
        self.1.store(true, Ordering::Relaxed);
        loop {
            output.write(b"again")?;
        }
    }
}

#[test]
fn a_piece_without_end_ends_with_its_session() {
    let folder = tempfile::tempdir().unwrap();
    let destination = Destination { folder: folder.path().join("out"), kind: DestinationKind::Folder };
    let stage = Stage::begin(&destination).unwrap();
    let session = Session::new(2, 1 << 30);
    let plan = Endless(["a".to_owned()], session.cancel_flag());
    let column = Arc::new((0..10).collect::<Int32Array>()) as _;
    let mut batches = Some(RecordBatch::try_from_iter([("number", column)]).unwrap());
    let schema = batches.as_ref().unwrap().schema();
    let mut flow = from_fn(schema, || Ok(batches.take()));
    let ended = write(&mut *flow, &plan, None, batch_bytes, None, &stage, &session);
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::Cancelled);
}

#[test]
fn files_roll_at_the_same_rows_whoever_encodes_them() {
    let of = |roll, numbers, threads| {
        files_of(&Rolling(roll, ["list".to_owned()]), numbers, threads, None).unwrap()
    };
    // Each file has twelve rows, in pieces of five, five and two rows.
    let expected: Vec<u8> = [&b"head 1"[..], &(12..24).flat_map(bytes).collect::<Vec<_>>(), &[3]].concat();
    for threads in [1, 2, 5] {
        let files = of(Roll::Rows(12), 100, threads);
        assert_eq!(files.len(), 9 + 1, "{:?}", files.keys());
        assert!(files["1-of-9"] == expected, "{threads} threads");
        let list = String::from_utf8(files["list"].clone()).unwrap();
        assert!(list.starts_with("0-of-9 12 ") && list.contains("8-of-9 4 "), "{list}");
    }
    let most = 3_000_000;
    let by_size = of(Roll::Bytes(most), 100, 1);
    assert!(by_size == of(Roll::Bytes(most), 100, 5));
    let data: Vec<_> = by_size.iter().filter(|(name, _)| *name != "list").collect();
    // A piece that is too long for a file gets its own file.
    assert!(
        data.len() > 5
            && data.iter().all(|(_, bytes)| bytes.len() as u64 <= most + 1 || bytes.last() == Some(&1))
    );
    assert!(data.iter().any(|(_, bytes)| bytes.last() > Some(&1)));
    let empty = of(Roll::Rows(12), 0, 2);
    assert_eq!(empty["0-of-1"], b"head 0\0");
    assert_eq!(empty["list"], b"0-of-1 0 7\n");
}

/// A plan whose files have a limited length, and whose pieces exceed the limit once they are
/// encoded.
struct Expanding(Rolling);

impl RecordPlan for Expanding {
    fn files(&self) -> &[String] {
        &[]
    }

    fn roll(&self) -> Option<Roll> {
        self.0.roll()
    }

    fn name(&self, file: usize, count: usize) -> Result<String> {
        self.0.name(file, count)
    }

    fn group(&self) -> Group {
        Group { rows: 50, bytes: 1 << 10 }
    }

    fn begin(&self, file: usize, output: &mut dyn ByteSink) -> Result<()> {
        self.0.begin(file, output)
    }

    fn encode(
        &self,
        batches: &[RecordBatch],
        output: &mut dyn ByteSink,
        losses: &mut dyn LossSink,
    ) -> Result<Vec<u8>> {
        self.0.encode(batches, output, losses)
    }
}

#[test]
fn a_piece_that_is_encoded_to_more_than_a_file_is_divided() {
    // The encoding of the longest number takes 480,012 bytes.
    for most in [500_000, 2_000_000] {
        let plan = Expanding(Rolling(Roll::Bytes(most), [String::new()]));
        let files = files_of(&plan, 100, 1, None).unwrap();
        assert!(files.len() > 5, "{}", files.len());
        assert!(files.values().all(|bytes| bytes.len() as u64 <= most), "{most}");
        let average = files.values().map(Vec::len).sum::<usize>() / files.len();
        assert!(average as u64 > most / 2, "{average} of {most}");
        assert!(files == files_of(&plan, 100, 3, None).unwrap());
        let all: usize = (0..100).map(|number| bytes(number).len()).sum();
        let heads: usize = (0..files.len()).map(|file| format!("head {file}").len()).sum();
        assert_eq!(files.values().map(Vec::len).sum::<usize>(), all + heads);
    }
    // A row that is too long gets its own file.
    let plan = Expanding(Rolling(Roll::Bytes(100_000), [String::new()]));
    assert!(files_of(&plan, 50, 2, None).unwrap().values().any(|bytes| bytes.len() > 100_000));
}

#[test]
fn pieces_come_in_order_whoever_encodes_them() {
    let expected = [0..50, 50..100].map(|numbers| {
        let pieces = numbers.flat_map(bytes);
        [b"head".to_vec(), pieces.collect(), b"tail".to_vec()].concat()
    });
    for threads in [1, 2, 5] {
        assert!(written(100, threads).unwrap() == expected, "{threads} threads");
    }
    assert_eq!(written(1010, 3).unwrap_err().kind(), tensorferry_sdk::ErrorKind::Unsupported);
}
