//! Files with handmade footers and page headers. They make claims that no real writer would make.

use crate::common::{file, folder, open, read, read_within};
use arrow_ipc::{
    Field, FieldBuilder, IntBuilder, MessageBuilder, MessageHeader, MetadataVersion, SchemaBuilder,
    Struct_Builder, Type,
};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flatbuffers::{FlatBufferBuilder, WIPOffset};
use std::sync::Arc;
use tensorferry_sdk::arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray};
use tensorferry_sdk::records::Batches;
use tensorferry_sdk::{Error, ErrorKind, Limits, MemorySource};
use tensorferry_test_kit::rows::rows;

const I32: u8 = 5;
const I64: u8 = 6;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

const REQUIRED: i64 = 0;
const OPTIONAL: i64 = 1;
const REPEATED: i64 = 2;
const INT64: i64 = 2;
const BYTE_ARRAY: i64 = 6;
const FIXED_LEN_BYTE_ARRAY: i64 = 7;

/// A Thrift struct in the compact protocol. Every field ID is written in full.
#[derive(Clone, Default)]
struct Thrift(Vec<u8>);

impl Thrift {
    fn field(mut self, id: u64, wire: u8, value: &[u8]) -> Self {
        self.0.push(wire);
        self.0.extend(varint(id << 1));
        self.0.extend(value);
        self
    }

    fn int(self, id: u64, value: i64) -> Self {
        self.field(id, if i32::try_from(value).is_ok() { I32 } else { I64 }, &zigzag(value))
    }

    fn text(self, id: u64, text: &str) -> Self {
        self.field(id, BINARY, &[varint(text.len() as u64), text.into()].concat())
    }

    fn inner(self, id: u64, inner: &Self) -> Self {
        self.field(id, STRUCT, &inner.bytes())
    }

    fn list(self, id: u64, elements: &[Self]) -> Self {
        let count = varint(elements.len() as u64);
        let elements: Vec<u8> = elements.iter().flat_map(Self::bytes).collect();
        self.field(id, LIST, &[vec![0xf0 | STRUCT], count, elements].concat())
    }

    fn bytes(&self) -> Vec<u8> {
        [&self.0[..], &[0]].concat()
    }
}

fn zigzag(value: i64) -> Vec<u8> {
    varint(((value << 1) ^ (value >> 63)).cast_unsigned())
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 0x7f {
        bytes.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
        value >>= 7;
    }
    bytes.push(u8::try_from(value).unwrap());
    bytes
}

fn leaf(name: &str, physical: i64, repetition: i64) -> Thrift {
    Thrift::default().int(1, physical).int(3, repetition).text(4, name)
}

fn group(name: &str, children: usize) -> Thrift {
    Thrift::default().int(3, REQUIRED).text(4, name).int(5, i64::try_from(children).unwrap())
}

/// Describes a column chunk of `values` values in `len` bytes of the file, starting at `start`.
fn chunk(physical: i64, values: i64, start: usize, len: usize) -> Thrift {
    let [start, len] = [start, len].map(|number| i64::try_from(number).unwrap());
    let encodings = [0x10 | I32, 0];
    let column = Thrift::default().int(1, physical).field(2, LIST, &encodings).int(4, 0).int(5, values);
    let column = column.int(6, len).int(7, len).int(9, start);
    Thrift::default().int(2, start).inner(3, &column)
}

fn row_group(rows: i64, chunks: &[Thrift]) -> Thrift {
    Thrift::default().list(1, chunks).int(2, 0).int(3, rows)
}

/// Builds a file from pages, a schema and row groups.
fn parquet(pages: &[u8], schema: &[Thrift], groups: &[Thrift]) -> Vec<u8> {
    parquet_with(pages, schema, groups, &[])
}

/// Builds a file whose metadata contains `entries`, which are keys and values.
fn parquet_with(pages: &[u8], schema: &[Thrift], groups: &[Thrift], entries: &[(&str, &str)]) -> Vec<u8> {
    let entry = |(key, value): &(&str, &str)| Thrift::default().text(1, key).text(2, value);
    let entries: Vec<Thrift> = entries.iter().map(entry).collect();
    let footer =
        Thrift::default().int(1, 2).list(2, schema).int(3, 0).list(4, groups).list(5, &entries).bytes();
    let len = u32::try_from(footer.len()).unwrap().to_le_bytes();
    [b"PAR1", pages, &footer, &len, b"PAR1"].concat()
}

/// Builds an uncompressed page. `header` is the struct that is specific to the page type. The page
/// header contains it in the field `own`.
fn page(kind: i64, body: &[u8], own: u64, header: &Thrift) -> Vec<u8> {
    let len = i64::try_from(body.len()).unwrap();
    let header = Thrift::default().int(1, kind).int(2, len).int(3, len).inner(own, header);
    [header.bytes(), body.to_vec()].concat()
}

/// Builds a data page that contains only nulls of an optional column.
fn nulls(values: i64) -> Vec<u8> {
    without_values(values, &[1])
}

/// Builds a data page of nulls or empty lists. For each kind of level, the page contains a run of
/// zeros. `widths` are the widths of the levels in bytes.
fn without_values(values: i64, widths: &[usize]) -> Vec<u8> {
    let levels = widths.iter().flat_map(|&width| {
        let run = [varint(values.cast_unsigned() << 1), vec![0; width]].concat();
        [&u32::try_from(run.len()).unwrap().to_le_bytes()[..], &run].concat()
    });
    let header = Thrift::default().int(1, values).int(2, 0).int(3, 3).int(4, 3);
    page(0, &levels.collect::<Vec<u8>>(), 5, &header)
}

fn limits(change: impl FnOnce(&mut Limits)) -> Limits {
    let mut limits = Limits::default();
    change(&mut limits);
    limits
}

#[track_caller]
fn assert_refused(bytes: &[u8], kind: ErrorKind, why: &str) {
    let error: Error = read(bytes).unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(why), "{error}");
}

/// Builds a schema of `depth` nested groups. The innermost group contains a leaf. The first `lists`
/// groups below the root are lists.
fn nested(depth: usize, lists: usize) -> Vec<Thrift> {
    let repetition = |level: usize| if (1..=lists).contains(&level) { REPEATED } else { OPTIONAL };
    let group = |level| Thrift::default().int(3, repetition(level)).text(4, "g").int(5, 1);
    (0..depth).map(group).chain([leaf("n", INT64, OPTIONAL)]).collect()
}

#[test]
fn a_file_made_by_hand_is_read() {
    let pages = nulls(1000);
    let schema = [group("root", 1), leaf("n", INT64, OPTIONAL)];
    let bytes = parquet(&pages, &schema, &[row_group(1000, &[chunk(INT64, 1000, 4, pages.len())])]);
    let batches = read(&bytes).unwrap();
    assert_eq!(batches.iter().map(|batch| batch.column(0).null_count()).sum::<usize>(), 1000);
}

#[test]
fn groups_may_not_nest_deeper_than_the_stack() {
    // A thread's stack is 2 MiB, regardless of the limits.
    let limits = limits(|limits| limits.nesting = 100_000);
    for (depth, lists, is_read) in [
        (64, 0, true),
        (64, 16, true),
        (64, 17, false),
        (65, 0, false),
        (1500, 0, false),
        (1500, 1499, false),
        (100_000, 0, false),
    ] {
        let pages = without_values(10, if lists == 0 { &[1] } else { &[1, 1] });
        let groups = [row_group(10, &[chunk(INT64, 10, 4, pages.len())])];
        let bytes = parquet(&pages, &nested(depth, lists), &groups);
        let limits = limits.clone();
        let thread = std::thread::Builder::new().stack_size(2 << 20);
        let result = thread.spawn(move || read_within(&bytes, limits)).unwrap().join().unwrap();
        match result {
            Ok(batches) => assert!(is_read && batches[0].num_rows() == 10, "{depth}"),
            Err(error) => {
                assert!(!is_read && error.to_string().contains("nest too deep"), "{depth}: {error}");
            }
        }
    }
    let limits = self::limits(|limits| limits.nesting = 3);
    let bytes = |depth| parquet(&[], &nested(depth, 0), &[]);
    read_within(&bytes(3), limits.clone()).unwrap();
    assert_eq!(read_within(&bytes(4), limits).unwrap_err().kind(), ErrorKind::Limit);
}

#[test]
fn a_group_has_as_many_children_as_there_are_elements() {
    let many = group("root", i32::MAX.try_into().unwrap());
    assert_refused(&parquet(&[], &[many], &[]), ErrorKind::Malformed, "more children");
    let none = leaf("n", INT64, OPTIONAL).int(5, -1);
    assert_refused(&parquet(&[], &[group("root", 1), none], &[]), ErrorKind::Malformed, "negative");
    // The `parquet` crate would also read the second schema of a footer. It would read a field of a
    // wrong type as if the field had the expected type.
    let footer = Thrift::default().int(1, 2).list(2, &[group("a", 0)]).list(2, &nested(1500, 0)).bytes();
    let len = u32::try_from(footer.len()).unwrap().to_le_bytes();
    assert_refused(&[b"PAR1", &footer[..], &len, b"PAR1"].concat(), ErrorKind::Malformed, "repeated");
}

#[test]
fn paths_to_leaves_are_bounded_by_the_footer() {
    // The paths of 35,000 leaves in a group with a 65,000-byte name need more than 2 GiB.
    let schema = |leaves: usize, name: usize| {
        let mut schema = vec![group("root", 1), group(&"x".repeat(name), leaves)];
        schema.extend((0..leaves).map(|_| leaf("", INT64, OPTIONAL)));
        parquet(&[], &schema, &[])
    };
    let bytes = schema(35_000, 65_000);
    assert!(bytes.len() < 500_000, "{}", bytes.len());
    assert_refused(&bytes, ErrorKind::Limit, "too long in memory");
    read(&schema(35_000, 30)).unwrap();
}

#[test]
fn a_page_has_one_header() {
    // The `parquet` crate allocates memory for all values of a dictionary before it decodes any of
    // the values.
    let header = Thrift::default().int(1, 1 << 30).int(2, 0);
    let none = Thrift::default().int(1, 0).int(2, 0).int(3, 3).int(4, 3);
    let lengths = Thrift::default().int(1, 2).int(2, 0).int(3, 0);
    let twice = Thrift::default().int(1, 1 << 30).int(1, 0).int(2, 0);
    for (header, why) in [
        (lengths.clone().inner(7, &header).inner(5, &none), "order"),
        (lengths.clone().inner(5, &none).inner(7, &header), "two page types"),
        (lengths.clone().inner(7, &header).inner(7, &none), "repeated"),
        (lengths.clone().inner(7, &twice), "repeated"),
        (lengths.clone().inner(5, &none), "a different page type"),
        (lengths.field(7, LIST, &header.bytes()), "wrong type"),
    ] {
        let pages = header.bytes();
        let schema = [group("root", 1), leaf("s", BYTE_ARRAY, OPTIONAL)];
        let bytes = parquet(&pages, &schema, &[row_group(1, &[chunk(BYTE_ARRAY, 1, 4, pages.len())])]);
        assert!(bytes.len() < 200, "{} bytes", bytes.len());
        // Thrift readers skip a field that has the wrong type, so the file is valid.
        let is_skipped = why == "wrong type";
        let kind = if is_skipped { ErrorKind::Unsupported } else { ErrorKind::Malformed };
        assert_refused(&bytes, kind, why);
    }
}

#[test]
fn few_bytes_stand_for_so_many_nulls() {
    let schema = [group("root", 1), leaf("n", INT64, OPTIONAL)];
    let file = |values: i64, groups: usize| {
        let pages = nulls(values);
        let groups = (0..groups)
            .map(|index| row_group(values, &[chunk(INT64, values, 4 + index * pages.len(), pages.len())]));
        let groups: Vec<Thrift> = groups.collect();
        parquet(&pages.repeat(groups.len()), &schema, &groups)
    };
    let opened = |bytes: Vec<u8>| open(MemorySource::file("in.parquet", bytes), Limits::default());
    // The reader rejects a 2 KB file that claims 20 * 2^30 values. It accepts 2000 row groups, each
    // with as many nulls as a row group from pyarrow.
    let error = opened(file(1 << 30, 20)).map(drop).unwrap_err();
    assert!(error.kind() == ErrorKind::Limit && error.to_string().contains("expanded_bytes"), "{error}");
    assert_eq!(opened(file(1 << 20, 2000)).unwrap().splits().len(), 2000);
    assert_eq!(opened(file(1 << 26, 1)).unwrap().splits().len(), 1);
    // All files share one limit on the number of values. Each of these files stores 2^26 values in
    // 200 bytes.
    let few = file(1 << 26, 1);
    let names: Vec<String> = (0..6).map(|index| format!("{index}.parquet")).collect();
    let files: Vec<(&str, &[u8])> = names.iter().map(|name| (&name[..], &few[..])).collect();
    open(folder(&files[..4]), Limits::default()).unwrap();
    assert_eq!(open(folder(&files), Limits::default()).map(drop).unwrap_err().kind(), ErrorKind::Limit);
    open(folder(&files), limits(|limits| limits.expanded_bytes *= 2)).unwrap();
    // Rows without columns also take time to read.
    let rows = parquet(&[], &[group("root", 0)], &[row_group(1 << 40, &[])]);
    assert_refused(&rows, ErrorKind::Limit, "more values");
    // In fixed-length columns, nulls use as much memory as other values.
    let long = leaf("f", FIXED_LEN_BYTE_ARRAY, OPTIONAL);
    let long = Thrift(long.0[..3].to_vec()).int(2, 1 << 20).int(3, OPTIONAL).text(4, "f");
    let pages = nulls(1 << 20);
    let chunks = [chunk(FIXED_LEN_BYTE_ARRAY, 1 << 20, 4, pages.len())];
    let bytes = parquet(&pages, &[group("root", 1), long], &[row_group(1 << 20, &chunks)]);
    assert_refused(&bytes, ErrorKind::Limit, "more values");
}

#[test]
fn a_row_of_long_nulls_is_bounded() {
    // Each column is within the limit, but all columns together exceed it.
    let wide = Thrift::default().int(1, FIXED_LEN_BYTE_ARRAY).int(2, 1 << 18).int(3, OPTIONAL).text(4, "f");
    let pages = nulls(1);
    let mut schema = vec![group("root", 8)];
    schema.extend(vec![wide; 8]);
    let chunks = (0..8).map(|index| chunk(FIXED_LEN_BYTE_ARRAY, 1, 4 + index * pages.len(), pages.len()));
    let bytes = parquet(&pages.repeat(8), &schema, &[row_group(1, &chunks.collect::<Vec<_>>())]);
    read(&bytes).unwrap();
    let limits = limits(|limits| limits.header_bytes = 1 << 20);
    assert_eq!(read_within(&bytes, limits).unwrap_err().kind(), ErrorKind::Limit);
}

#[test]
fn a_chunks_lists_are_bounded_by_its_bytes() {
    // The page contains a list of 2^23 nulls, whose repetition levels are a 0 and a run of ones.
    let count = 1_i64 << 23;
    let run = [vec![2, 0], varint((count - 1).cast_unsigned() << 1), vec![1]].concat();
    let other = [varint(count.cast_unsigned() << 1), vec![0]].concat();
    let levels =
        [run, other].map(|run| [&u32::try_from(run.len()).unwrap().to_le_bytes()[..], &run].concat());
    let header = Thrift::default().int(1, count).int(2, 0).int(3, 3).int(4, 3);
    let pages = page(0, &levels.concat(), 5, &header);
    let schema = [group("root", 1), leaf("l", INT64, REPEATED)];
    let bytes = parquet(&pages, &schema, &[row_group(1, &[chunk(INT64, 1, 4, pages.len())])]);
    assert_refused(&bytes, ErrorKind::Malformed, "more values than their chunk");
}

#[test]
fn row_groups_are_bounded_by_the_footer() {
    // A row group without chunks, bytes or rows occupies seven bytes.
    let empty = vec![Thrift(vec![0x19, STRUCT, 0x16, 0, 0x16, 0]); 100_000];
    assert_refused(&parquet(&[], &[group("root", 0)], &empty), ErrorKind::Limit, "too long in memory");
    read(&parquet(&[], &[group("root", 0)], &empty[..500])).unwrap();
    // More row groups are allowed if they have chunks, because they make the footer longer.
    let schema = [group("root", 1), leaf("n", INT64, OPTIONAL)];
    let groups = vec![row_group(0, &[chunk(INT64, 0, 4, 0)]); 20_000];
    let set = open(MemorySource::file("in.parquet", parquet(&[], &schema, &groups)), Limits::default());
    assert_eq!(set.unwrap().splits().len(), 20_000);
    // All row groups refer to the same bytes.
    let pages = nulls(10);
    let groups = vec![row_group(10, &[chunk(INT64, 10, 4, pages.len())]); 20];
    assert_refused(&parquet(&pages, &schema, &groups), ErrorKind::Malformed, "share bytes");
}

#[test]
fn columns_of_nulls_are_read() {
    let nulls: ArrayRef = Arc::new(Int64Array::new_null(1 << 20));
    let words: ArrayRef = Arc::new(StringArray::new_null(1 << 20));
    let batch = rows(vec![("n", nulls), ("w", words)]);
    let bytes = file(&[batch.clone(), batch.clone(), batch], &[]);
    let batches = read(&bytes).unwrap();
    assert_eq!(batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), 3 << 20);
    assert!(
        batches
            .iter()
            .all(|batch| batch.columns().iter().all(|column| column.null_count() == batch.num_rows()))
    );
}

/// Builds a file with one column. All rows repeat the only value in the dictionary of the column.
fn repeated(value: &[u8], rows: i64) -> Vec<u8> {
    let dictionary = [&u32::try_from(value.len()).unwrap().to_le_bytes()[..], value].concat();
    let dictionary = page(2, &dictionary, 7, &Thrift::default().int(1, 1).int(2, 0));
    // Each index is one bit, and the indices form a run of zeros.
    let indices = [vec![1], varint(rows.cast_unsigned() << 1), vec![0]].concat();
    let header = Thrift::default().int(1, rows).int(2, 8).int(3, 3).int(4, 3);
    let pages = [dictionary.clone(), page(0, &indices, 5, &header)].concat();
    let [at, len] = [4 + dictionary.len(), pages.len()].map(|number| i64::try_from(number).unwrap());
    let column = Thrift::default().int(1, BYTE_ARRAY).field(2, LIST, &[0x10 | I32, 0]).int(4, 0).int(5, rows);
    let column = column.int(6, len).int(7, len).int(9, at).int(11, 4);
    let groups = [row_group(rows, &[Thrift::default().int(2, 4).inner(3, &column)])];
    parquet(&pages, &[group("root", 1), leaf("s", BYTE_ARRAY, REQUIRED)], &groups)
}

#[test]
fn a_repeated_value_is_paid_for_by_bytes() {
    // About a kilobyte may expand to 16 MiB, but not to a gigabyte.
    let value = [b'x'; 1 << 10];
    let few = limits(|limits| limits.expanded_bytes = 0);
    let rows_of = |batches: Vec<RecordBatch>| batches.iter().map(RecordBatch::num_rows).sum::<usize>();
    assert_eq!(rows_of(read_within(&repeated(&value, 1 << 14), few.clone()).unwrap()), 1 << 14);
    let many = repeated(&value, 1 << 20);
    assert!(many.len() < 1300, "{}", many.len());
    let error = read_within(&many, few.clone()).unwrap_err();
    assert!(
        error.kind() == ErrorKind::Limit
            && error.details().any(|(_, text)| text.contains("--limit expanded_bytes=N")),
        "{error}"
    );
    // If the same rows are read several times, their bytes are counted only once.
    let bytes = repeated(&value, 1 << 16);
    let set = open(MemorySource::file("in.parquet", bytes.clone()), few).unwrap();
    for _ in 0..3 {
        let request = Batches::default();
        assert_eq!(
            set.stream(0, &request).unwrap().map(|batch| batch.unwrap().num_rows()).sum::<usize>(),
            1 << 16
        );
    }
    // ferry encodes a column with a single repeated value in the same way.
    let words: ArrayRef =
        Arc::new(StringArray::from_iter_values(std::iter::repeat_n("a constant word", 1 << 20)));
    let bytes = file(&[rows(vec![("w", words)])], &[("dictionary", "true")]);
    assert!(bytes.len() < 3000, "{}", bytes.len());
    read_within(&bytes, limits(|limits| limits.expanded_bytes = 0)).unwrap();
}

/// Returns the value of the metadata entry for an Arrow schema. `fields` builds the fields.
fn hint<'a>(fields: impl FnOnce(&mut FlatBufferBuilder<'a>) -> Vec<WIPOffset<Field<'a>>>) -> String {
    let mut buffer = FlatBufferBuilder::new();
    let fields = fields(&mut buffer);
    let fields = buffer.create_vector(&fields);
    let mut schema = SchemaBuilder::new(&mut buffer);
    schema.add_fields(fields);
    let schema = schema.finish();
    let mut message = MessageBuilder::new(&mut buffer);
    message.add_version(MetadataVersion::V5);
    message.add_header_type(MessageHeader::Schema);
    message.add_header(schema.as_union_value());
    let message = message.finish();
    buffer.finish(message, None);
    let len = u32::try_from(buffer.finished_data().len()).unwrap().to_le_bytes();
    BASE64_STANDARD.encode([&[0xff; 4], &len, buffer.finished_data()].concat())
}

fn number<'a>(buffer: &mut FlatBufferBuilder<'a>, name: &str) -> WIPOffset<Field<'a>> {
    let name = buffer.create_string(name);
    let mut int = IntBuilder::new(buffer);
    int.add_bitWidth(64);
    int.add_is_signed(true);
    let int = int.finish();
    let mut field = FieldBuilder::new(buffer);
    field.add_name(name);
    field.add_nullable(true);
    field.add_type_type(Type::Int);
    field.add_type_(int.as_union_value());
    field.finish()
}

#[test]
fn an_arrow_schema_is_what_its_bytes_say_once() {
    let pages = nulls(10);
    let bytes = |hint: &str| {
        let schema = [group("root", 1), leaf("n", INT64, OPTIONAL)];
        let groups = [row_group(10, &[chunk(INT64, 10, 4, pages.len())])];
        parquet_with(&pages, &schema, &groups, &[("ARROW:schema", hint)])
    };
    read(&bytes(&hint(|buffer| vec![number(buffer, "n")]))).unwrap();
    // The schema repeats one field with a long name, so 100 KB would expand to 50 MB.
    let wide = hint(|buffer| vec![number(buffer, &"n".repeat(50_000)); 1000]);
    // The schema contains a struct that contains the same struct twice, at many levels. It would
    // expand to 2^18 fields.
    let deep = hint(|buffer| {
        let mut field = number(buffer, "n");
        for _ in 0..18 {
            let children = buffer.create_vector(&[field, field]);
            let name = buffer.create_string("s");
            let kind = Struct_Builder::new(buffer).finish();
            let mut outer = FieldBuilder::new(buffer);
            outer.add_name(name);
            outer.add_type_type(Type::Struct_);
            outer.add_type_(kind.as_union_value());
            outer.add_children(children);
            field = outer.finish();
        }
        vec![field]
    });
    for shared in [&wide, &deep] {
        assert!(shared.len() < 100_000, "{}", shared.len());
        assert_refused(&bytes(shared), ErrorKind::Limit, "shared tables");
    }
    for bad in ["", "=", "AAAA", "/////wAAAAA=", &wide[..wide.len() / 2]] {
        assert_eq!(read(&bytes(bad)).unwrap_err().kind(), ErrorKind::Malformed, "{bad:.20}");
    }
}
