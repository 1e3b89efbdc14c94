//! Reads the descriptions of datasets. A dataset's description consists of its shape, its element
//! type, and the location of the elements.

use super::attributes::{Attributes, texts};
use super::chunks::Chunks;
use super::datatype::Datatype;
use super::file::File;
use super::filters::Filters;
use super::header::{
    DATASPACE, DATATYPE, EXTERNAL_FILES, FILL_VALUE, FILTERS, Header, LAYOUT, OLD_FILL_VALUE,
};
use super::layout::{self, DataLayout};
use hdf5_reader::io::Cursor;
use hdf5_reader::messages::dataspace::DataspaceType;
use hdf5_reader::messages::fill_value::FillValueMessage;
use hdf5_reader::messages::{dataspace, fill_value, filter_pipeline};
use std::sync::Arc;
use tensorferry_sdk::{Error, ErrorKind, Limits, Result};
use tensorferry_zip::Extent;

#[derive(Debug)]
pub(crate) struct Dataset {
    pub(crate) datatype: Datatype,
    /// The dimensions of the dataset, followed by the dimensions of its elements.
    pub(crate) shape: Vec<u64>,
    pub(crate) place: DataLocation,
    pub(crate) attributes: Attributes,
}

/// The reason why a dataset cannot be read.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) error: Error,
    /// Whether the dataset is valid, but ferry has no dtype for its elements.
    pub(crate) is_datatype: bool,
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self { error, is_datatype: false }
    }
}

/// Location of a dataset's elements.
#[derive(Debug)]
pub(crate) enum DataLocation {
    /// The dataset has no elements.
    Empty,
    /// The elements are contiguous in the file.
    File(Extent),
    /// The elements are in the object header.
    Inline(Vec<u8>),
    /// The elements were never written. All of them equal the fill value that this variant
    /// contains.
    Fill(Vec<u8>),
    Chunks(Chunks),
}

impl Dataset {
    /// Reads a dataset's description from its object header.
    pub(crate) fn read(file: &File<'_>, header: &Header, limits: &Limits) -> Result<Self, Fault> {
        let at = |error: Error| file.at(error, header.address);
        let need = |kind: u16, what: &str| {
            header.get(kind).ok_or_else(|| at(Error::malformed(format!("a dataset without {what}"))))
        };
        // Check for external data first, because the address of external data looks undefined.
        if header.get(EXTERNAL_FILES).is_some() {
            return Err(
                at(Error::unsupported("its data is in a different file, which ferry does not open")).into()
            );
        }
        let parsed = layout::parse(need(LAYOUT, "a layout")?, file.offset_size, file.length_size);
        let layout = file.parsed(parsed, "a dataset's layout", header.address)?;
        if layout == DataLayout::Virtual {
            return Err(at(virtual_error()).into());
        }
        let datatype = Datatype::parse(need(DATATYPE, "a datatype")?).map_err(|error| Fault {
            is_datatype: error.kind() == ErrorKind::Unsupported,
            error: at(error),
        })?;
        let attributes = Attributes::read(file, header)?;
        let mut shape = shape(file, need(DATASPACE, "a dataspace")?, header.address)?;
        let fill = fill(file, header, &datatype)?;
        let outer = shape.dims.len();
        shape.dims.extend(&datatype.inner);
        let count = shape.dims.iter().try_fold(1_u64, |count, &dim| count.checked_mul(dim));
        let bytes = shape.dims[..outer].iter().try_fold(datatype.width, |len, &dim| len.checked_mul(dim));
        let (Some(_), Some(bytes)) = (count, bytes) else {
            return Err(at(
                Error::malformed("the shape does not fit in 64 bits").found(format!("{:?}", shape.dims))
            )
            .into());
        };
        let place = if bytes == 0 {
            DataLocation::Empty
        } else {
            let of = Elements { header, datatype: &datatype, shape: &shape, outer, bytes, fill };
            of.locate(file, layout, limits)?
        };
        Ok(Self { datatype, shape: shape.dims, place, attributes })
    }

    /// Passes each string of a string dataset to `each`.
    pub(crate) fn strings(&self, file: &File<'_>, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        // `read` has checked that the number of elements fits in 64 bits.
        let count: u64 = self.shape.iter().product();
        let read;
        let data = match &self.place {
            DataLocation::Empty => return Ok(()),
            DataLocation::Inline(bytes) => bytes,
            DataLocation::File(extent) => {
                read = file.bytes(file.address(*extent), extent.len, "strings")?;
                &read
            }
            DataLocation::Fill(_) | DataLocation::Chunks(_) => {
                return Err(Error::unsupported("strings that are in chunks, or were never written"));
            }
        };
        texts(file, data, &self.datatype, count, each)
    }
}

/// Dataset properties that are needed to find the elements.
struct Elements<'a> {
    header: &'a Header,
    datatype: &'a Datatype,
    shape: &'a Shape,
    /// Number of dimensions of the dataset, excluding the dimensions of its elements.
    outer: usize,
    bytes: u64,
    fill: Vec<u8>,
}

struct Shape {
    dims: Vec<u64>,
    max: Option<Vec<u64>>,
}

impl Elements<'_> {
    fn locate(self, file: &File<'_>, layout: DataLayout, limits: &Limits) -> Result<DataLocation> {
        let at = |error: Error| file.at(error, self.header.address);
        let short = |found: u64| {
            at(Error::malformed("the data of a dataset is too short")
                .expected(format!("{} bytes", self.bytes))
                .found(format!("{found} bytes")))
        };
        let filters = self.filters(file)?;
        if !filters.is_empty() && !matches!(layout, DataLayout::Chunked { .. }) {
            return Err(at(Error::malformed("a dataset without chunks has filters")));
        }
        match layout {
            DataLayout::Compact(data) => {
                let len = data.len() as u64;
                let wanted = usize::try_from(self.bytes).ok().and_then(|bytes| data.get(..bytes));
                wanted.map(|data| DataLocation::Inline(data.to_vec())).ok_or_else(|| short(len))
            }
            DataLayout::Contiguous { address, .. } | DataLayout::Chunked { address, .. }
                if file.is_undefined(address) =>
            {
                Ok(DataLocation::Fill(self.fill))
            }
            DataLayout::Contiguous { len: Some(len), .. } if len < self.bytes => Err(short(len)),
            DataLayout::Contiguous { address, .. } => {
                file.extent(address, self.bytes).map(DataLocation::File)
            }
            DataLayout::Chunked { address, tile: dims, indexing, has_plain_edges } => {
                let chunks = Chunks {
                    tile: dims.iter().map(|&dim| u64::from(dim)).collect(),
                    width: u32::try_from(self.datatype.width).unwrap_or(u32::MAX),
                    len: 0,
                    fill: self.fill,
                    filters: Arc::new(filters),
                    count: 0,
                    found: Vec::new(),
                };
                let shape = &self.shape.dims[..self.outer];
                let index = super::chunks::Index {
                    address,
                    dims: &dims,
                    indexing,
                    max: self.shape.max.as_deref(),
                    has_plain_edges,
                };
                chunks.read(file, shape, &index, limits).map(DataLocation::Chunks).map_err(at)
            }
            DataLayout::Virtual => Err(at(virtual_error())),
        }
    }

    fn filters(&self, file: &File<'_>) -> Result<Filters> {
        let Some(message) = self.header.get(FILTERS) else { return Filters::new(Vec::new()) };
        let (os, ls) = (file.offset_size, file.length_size);
        let parsed = filter_pipeline::parse(&mut Cursor::new(message), os, ls, message.len());
        let parsed = file.parsed(parsed, "a dataset's filters", self.header.address)?;
        let ids = parsed.filters.iter().map(|filter| filter.id).collect();
        Filters::new(ids).map_err(|error| file.at(error, self.header.address))
    }
}

fn virtual_error() -> Error {
    Error::unsupported("a virtual dataset, whose data is in other datasets")
}

fn shape(file: &File<'_>, message: &[u8], address: u64) -> Result<Shape> {
    let parsed =
        dataspace::parse(&mut Cursor::new(message), file.offset_size, file.length_size, message.len());
    let space = file.parsed(parsed, "a dataset's dataspace", address)?;
    Ok(match space.dataspace_type {
        DataspaceType::Scalar => Shape { dims: vec![], max: None },
        DataspaceType::Null => Shape { dims: vec![0], max: None },
        DataspaceType::Simple => Shape { dims: space.dims, max: space.max_dims },
    })
}

/// Returns the value of elements that were never written.
fn fill(file: &File<'_>, header: &Header, datatype: &Datatype) -> Result<Vec<u8>> {
    let (os, ls) = (file.offset_size, file.length_size);
    let parsed = match (header.get(FILL_VALUE), header.get(OLD_FILL_VALUE)) {
        (Some(new), _) => Some(fill_value::parse_new(&mut Cursor::new(new), os, ls, new.len())),
        (None, Some(old)) => Some(fill_value::parse_old(&mut Cursor::new(old), os, ls, old.len())),
        (None, None) => None,
    };
    let parsed = parsed.map(|parsed| file.parsed(parsed, "a dataset's fill value", header.address));
    let width = usize::try_from(datatype.width).unwrap_or(0);
    match parsed.transpose()? {
        Some(FillValueMessage { value: Some(value), .. }) if value.len() == width => Ok(value),
        Some(FillValueMessage { value: Some(value), .. }) if !value.is_empty() => {
            let error =
                Error::malformed("the fill value is not one element").expected(format!("{width} bytes"));
            Err(file.at(error.found(format!("{} bytes", value.len())), header.address))
        }
        _ => Ok(vec![0; width.min(1 << 20)]),
    }
}
