//! Options of the writer. The reader has no options.

use arrow_ipc::CompressionType;
use arrow_ipc::writer::IpcWriteOptions;
use tensorferry_sdk::Side::Writer;
use tensorferry_sdk::file_name::has_suffix;
use tensorferry_sdk::records::{Group, Sharding};
use tensorferry_sdk::{Error, OptionSpec, Options, Result, TypedOption};

const FORM: TypedOption<Option<Form>> = TypedOption::choice(
    Writer,
    "form",
    &[("auto", None), ("file", Some(Form::File)), ("stream", Some(Form::Stream))],
    "file: with an index, and one dictionary per column; stream: without; auto: stream for *.arrows, otherwise file",
);
const COMPRESSION: TypedOption<Option<CompressionType>> = TypedOption::choice(
    Writer,
    "compression",
    &[("none", None), ("lz4", Some(CompressionType::LZ4_FRAME)), ("zstd", Some(CompressionType::ZSTD))],
    "codec of the buffers; uncompressed buffers are read without a copy",
);
const LEVEL: TypedOption<Option<u32>> =
    TypedOption::integer(Writer, "level", 0..=u64::MAX, "compression level: 1-22, only for zstd");
const BATCH_ROWS: TypedOption<usize> =
    TypedOption::integer(Writer, "batch_rows", 1..=u64::MAX, "maximum rows in a record batch").or("65536");
const BATCH_SIZE: TypedOption<u64> = TypedOption::size(
    Writer,
    "batch_size",
    1,
    "approximate size of a record batch; each thread keeps one in memory",
)
.or("16MiB");

pub(crate) fn declared() -> Vec<OptionSpec> {
    let own = [FORM.spec(), COMPRESSION.spec(), LEVEL.spec(), BATCH_ROWS.spec(), BATCH_SIZE.spec()];
    own.into_iter().chain(Sharding::options()).collect()
}

/// Form of the output: a file or a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    File,
    Stream,
}

#[derive(Debug, Clone)]
pub(crate) struct WriteOptions {
    /// Write options of the `arrow-ipc` library.
    pub(crate) ipc: IpcWriteOptions,
    /// Maximum number of rows and bytes of a record batch.
    pub(crate) group: Group,
    pub(crate) sharding: Sharding,
    form: Option<Form>,
}

impl WriteOptions {
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let (compression, level) = (COMPRESSION.get(options)?, LEVEL.get(options)?);
        let refused = |expected: &str| LEVEL.refuse(expected, level.unwrap_or_default());
        let level = match (compression, level) {
            (_, None) => None,
            (Some(CompressionType::ZSTD), Some(level @ 1..=22)) => i32::try_from(level).ok(),
            (Some(CompressionType::ZSTD), Some(_)) => return Err(refused("1 to 22")),
            _ => return Err(refused("no level, because only zstd has levels")),
        };
        let ipc = IpcWriteOptions::default().try_with_compression(compression);
        let ipc =
            ipc.and_then(|ipc| if level.is_some() { ipc.try_with_compression_level(level) } else { Ok(ipc) });
        Ok(Self {
            ipc: ipc.map_err(|error| Error::usage(error.to_string()))?,
            group: Group { rows: BATCH_ROWS.get(options)?, bytes: BATCH_SIZE.get(options)? },
            sharding: Sharding::of(options)?,
            form: FORM.get(options)?,
        })
    }

    /// Returns the form in which to write a file with this name.
    pub(crate) fn form_of(&self, name: &str) -> Form {
        let by_name = if has_suffix(name, crate::STREAM_SUFFIX) { Form::Stream } else { Form::File };
        self.form.unwrap_or(by_name)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::ErrorKind;
    use tensorferry_sdk::memory::pairs;

    fn options(given: &[(&str, &str)]) -> Result<WriteOptions> {
        WriteOptions::new(&Options::check(&declared(), Writer, &pairs(given))?)
    }

    #[test]
    fn a_name_tells_the_form_and_a_level_belongs_to_zstd() {
        let default = options(&[]).unwrap();
        assert_eq!(default.form_of("a.arrow"), Form::File);
        assert_eq!(default.form_of("a.arrows"), Form::Stream);
        assert_eq!(default.form_of("A.ARROWS"), Form::Stream);
        assert_eq!(options(&[("form", "file")]).unwrap().form_of("a.arrows"), Form::File);
        assert!(options(&[("compression", "zstd"), ("level", "22")]).is_ok());
        for given in [
            &[("level", "1")][..],
            &[("compression", "lz4"), ("level", "1")],
            &[("compression", "zstd"), ("level", "0")],
            &[("compression", "zstd"), ("level", "23")],
        ] {
            assert_eq!(options(given).unwrap_err().kind(), ErrorKind::Usage, "{given:?}");
        }
    }
}
