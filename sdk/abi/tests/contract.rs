//! Tests how a side reacts if the other side is older, is newer, or breaks the rules.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};
use tensorferry_abi::{
    Answer, Argument, Borrowed, ByteSinkCalls, ByteSinkTable, ErrorSink, Failure, Flag, Given, LossAt, Owned,
    Sender, Source, SourceCalls, SourceTable, Table, Text, class,
};

/// A source with one file. Calls fail if the name of the source requests it.
struct Letters(&'static str);

impl SourceCalls for Letters {
    fn entry(&self) -> Result<(u32, &str), Failure> {
        Ok((0, self.0))
    }

    fn open(&self, name: &str) -> Result<u32, Failure> {
        let mut failure = Failure::new(class::MALFORMED, "no such file");
        failure.details.push(("file".to_owned(), name.to_owned()));
        Err(failure)
    }

    fn exists(&self, _name: &str) -> Result<bool, Failure> {
        Err(Failure::new(class::IO, "the disk is gone"))
    }

    fn list(
        &self,
        _prefix: &str,
        names: Borrowed<'_, tensorferry_abi::NameSinkTable>,
    ) -> Result<(), Failure> {
        names.name("a")?;
        names.name("b")
    }

    fn folders(&self, _: &str, _: Borrowed<'_, tensorferry_abi::NameSinkTable>) -> Result<(), Failure> {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("the payload panics too");
            }
        }
        std::panic::panic_any(Bomb);
    }

    fn info(&self, _file: u32) -> Result<(u64, &str), Failure> {
        Ok((26, self.0))
    }

    fn read_at(&self, _file: u32, _offset: u64, buffer: &mut [u8]) -> Result<(), Failure> {
        buffer.fill(b'x');
        Ok(())
    }

    fn read_ranges(&self, _ranges: &[u64], buffer: &mut [u8]) -> Result<(), Failure> {
        buffer.fill(b'x');
        Ok(())
    }

    fn advise(&self, _ranges: &[u64]) -> Result<(), Failure> {
        Ok(())
    }
}

/// Returns the table of a borrowed [`Letters`], for tests to modify.
fn table(letters: &Letters) -> (SourceTable, *mut c_void) {
    let (table, this) =
        SourceTable::halves(Argument::raw(&mut <Source as Argument>::store(Borrowed::shared(letters))));
    // SAFETY: the table was created by this crate.
    (unsafe { *table }, this)
}

/// Receives an object as if it had come from the other side.
fn arrives(table: *const SourceTable, this: *mut c_void) -> Result<Borrowed<'static, SourceTable>, Failure> {
    // SAFETY: the tables live long enough. The tests intentionally break only rules that the
    // receiving side checks.
    unsafe { <Source as Argument>::raise(SourceTable::object(table, this)) }
}

#[test]
fn calls_give_answers_and_failures_with_their_details() {
    let letters = Letters("abc");
    let source = Borrowed::<SourceTable>::shared(&letters);
    assert_eq!(source.entry().unwrap(), (0, "abc"));
    let failure = source.open("x").unwrap_err();
    assert_eq!((failure.class(), failure.sender), (class::MALFORMED, Some(Sender::Host)));
    assert_eq!(failure.details, [("file".to_owned(), "x".to_owned())]);
    assert_eq!(source.exists("x").unwrap_err().message, "the disk is gone");
}

#[test]
fn a_panic_whose_payload_panics_is_a_failure() {
    struct Nothing;
    impl tensorferry_abi::NameSinkCalls for Nothing {
        fn name(&mut self, _name: &str) -> Result<(), Failure> {
            Ok(())
        }
    }
    let letters = Letters("abc");
    let source = Borrowed::<SourceTable>::shared(&letters);
    let failure = source.folders("", Borrowed::sink(&mut Nothing)).unwrap_err();
    assert_eq!(failure.class(), class::PLUGIN);
    assert!(failure.message.starts_with("panicked in Source.folders"), "{failure:?}");
}

#[test]
fn a_table_that_is_longer_is_used_as_far_as_it_is_known() {
    #[repr(C)]
    struct Newer {
        known: SourceTable,
        more: [usize; 3],
    }
    let letters = Letters("abc");
    let (known, this) = table(&letters);
    let mut newer = Newer { known, more: [usize::MAX; 3] };
    newer.known.size = size_of::<Newer>();
    let source = arrives(&raw const newer.known, this).unwrap();
    assert_eq!(source.entry().unwrap().1, "abc");
    assert_eq!(newer.more, [usize::MAX; 3]);
}

#[test]
fn a_table_that_is_shorter_than_the_first_revision_is_refused_at_every_size() {
    let letters = Letters("abc");
    for size in 0..size_of::<SourceTable>() {
        let (mut shorter, this) = table(&letters);
        shorter.size = size;
        let failure = arrives(&raw const shorter, this).err().unwrap();
        assert!(failure.message.contains("Source"), "{failure:?}");
    }
}

#[test]
fn null_tables_and_null_slots_are_failures() {
    assert!(arrives(std::ptr::null(), std::ptr::null_mut()).is_err());
    let letters = Letters("abc");
    let (mut without, this) = table(&letters);
    without.read_at = None;
    let source = arrives(&raw const without, this).unwrap();
    let failure = source.read_at(0, 0, &mut [0; 4]).unwrap_err();
    assert!(failure.is_missing() && failure.message.contains("Source.read_at"), "{failure:?}");
    assert_eq!(source.entry().unwrap().1, "abc");
}

#[test]
fn text_flags_and_slices_are_looked_at_where_they_arrive() {
    let bytes = [b'a', 0xff];
    let text: (*const u8, usize) = (bytes.as_ptr(), bytes.len());
    // SAFETY: `Text` consists of a pointer and a length.
    let text = unsafe { std::mem::transmute::<(*const u8, usize), Text>(text) };
    // SAFETY: the bytes live until this function returns.
    assert!(unsafe { <Text as Argument>::raise(text) }.unwrap_err().message.contains("UTF-8"));
    // SAFETY: `Text` consists of a pointer and a length. Nothing is read through the null pointer.
    let nowhere = unsafe { std::mem::transmute::<(usize, usize), Text>((0, 3)) };
    // SAFETY: the call checks for a null pointer before it reads the string.
    assert!(unsafe { <Text as Argument>::raise(nowhere) }.is_err());
    // SAFETY: `Text` consists of a pointer and a length.
    let endless = unsafe { std::mem::transmute::<(*const u8, usize), Text>((bytes.as_ptr(), usize::MAX)) };
    // SAFETY: the call checks for an impossible length before it reads the string.
    assert!(unsafe { <Text as Argument>::raise(endless) }.is_err());
    // SAFETY: a flag is represented as a single byte.
    let flag = unsafe { std::mem::transmute::<u8, Flag>(2) };
    // SAFETY: the call checks the value of the flag.
    assert!(unsafe { <Flag as Answer>::raise(flag) }.is_err());
    // SAFETY: the reference is represented as a pointer, which may be null here.
    let loss = unsafe { std::mem::transmute::<usize, LossAt>(0) };
    // SAFETY: the call checks for a null pointer first.
    assert!(unsafe { <LossAt as Argument>::raise(loss) }.is_err());
}

static DROPPED: AtomicU32 = AtomicU32::new(0);

struct Counted;

impl ByteSinkCalls for Counted {
    fn write(&mut self, _bytes: &[u8]) -> Result<(), Failure> {
        Ok(())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn an_owned_object_is_dropped_once_whoever_has_it() {
    drop(Owned::<ByteSinkTable>::give(Counted));
    assert_eq!(DROPPED.load(Ordering::Relaxed), 1);
    let mut closed = Owned::<ByteSinkTable>::give(Counted);
    closed.close().unwrap();
    closed.close().unwrap();
    drop(closed);
    assert_eq!(DROPPED.load(Ordering::Relaxed), 2);
    let crossing = <Given<tensorferry_abi::ByteSink> as Argument>::store(Owned::give(Counted));
    assert_eq!(DROPPED.load(Ordering::Relaxed), 2);
    // SAFETY: the object was given away above, and is received only once.
    drop(unsafe { <Given<tensorferry_abi::ByteSink> as Argument>::raise(crossing) }.unwrap());
    assert_eq!(DROPPED.load(Ordering::Relaxed), 3);
}

/// A C function that returns a status of an unknown class.
unsafe extern "C" fn future(
    _this: *mut c_void,
    _file: u32,
    _len: *mut u64,
    _name: *mut Text,
    _err: ErrorSink,
) -> i32 {
    (99 << 16) | 7
}

#[test]
fn a_class_that_is_not_known_arrives_as_it_is() {
    let letters = Letters("abc");
    let (mut newer, this) = table(&letters);
    newer.info = Some(future);
    let failure = arrives(&raw const newer, this).unwrap().info(0).unwrap_err();
    assert_eq!((failure.class(), failure.code & 0xffff), (99, 7));
    assert_eq!(failure.sender, Some(Sender::Host));
}
