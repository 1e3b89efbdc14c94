//! Adds arrays to the catalog as tensors. Each header is first checked against the number of
//! available bytes.

use crate::dtype::Element;
use crate::encoded::{ArrayBytes, Encoded, FieldBytes, collect};
use crate::header::{Descr, Header, MAGIC};
use crate::options::ReadOptions;
use crate::strings;
use crate::structure::Structure;
use tensorferry_sdk::{
    Block, ByteOrder, CatalogSink, Context, Digest, Dtype, Error, Loss, LossKind, Order, Region, Result,
    Severity, Source, Storage, StorageId, UniqueNames, row_major_strides,
};
use tensorferry_zip::{Extent, Member, Method};

/// State for adding arrays to a catalog.
pub(crate) struct Arrays<'a> {
    pub(crate) source: &'a dyn Source,
    pub(crate) catalog: &'a mut dyn CatalogSink,
    pub(crate) context: &'a dyn Context,
    pub(crate) options: ReadOptions,
    /// Storages to decode. Their indices are the handles of encoded storages.
    pub(crate) encoded: Vec<Encoded>,
    /// Number of bytes by which the deflated members expand.
    pub(crate) expanded: u64,
    pub(crate) names: UniqueNames,
}

/// Layout of a tensor's elements in its storage.
#[derive(Clone, Copy)]
struct ElementLayout<'s> {
    order: Order,
    byte_order: ByteOrder,
    /// Dimensions of the array.
    shape: &'s [u64],
    /// Dimensions of each element. The order within an element is row-major.
    inner: &'s [u64],
}

impl Arrays<'_> {
    /// Adds the array at the start of `array`. Returns the number of bytes that follow it.
    pub(crate) fn add(&mut self, name: &str, array: &ArrayBytes) -> Result<u64> {
        let limits = self.context.limits();
        let header = Header::read(limits, &|len| array.front(self.source, len, limits))?;
        let data_len = header.data_len()?;
        let there = array.len() - header.len;
        let after = there.checked_sub(data_len).ok_or_else(|| {
            Error::malformed("the array's data is incomplete")
                .offset(header.len)
                .expected(format!("{data_len} bytes"))
                .found(format!("{there} bytes"))
        })?;
        self.count_expanded(array)?;
        match &header.descr {
            Descr::Element(element) => self.add_elements(name, array, &header, element)?,
            Descr::Structure(structure) if self.options.fields => {
                self.add_fields(name, array, &header, structure, data_len)?;
            }
            Descr::Structure(structure) => {
                let count = structure.fields.len();
                let why = format!("the array is structured (a table of {count} fields)");
                return Err(Error::unsupported(format!(
                    "{why}; pass -i structured=fields to read each field as a tensor"
                )));
            }
        }
        Ok(after)
    }

    /// Adds the arrays in a file, which are stored consecutively. The arrays have no names, so if
    /// there are several, they are numbered.
    pub(crate) fn add_all(&mut self, name: &str, file: Extent) -> Result<()> {
        let (mut start, mut number) = (0, 0_u64);
        loop {
            self.context.check_cancelled()?;
            let array = file.after(start);
            let rest = self.length(array)?;
            let is_several = number > 0 || self.is_array(array.after(array.len - rest))?;
            let name = if is_several { format!("{name}.{number}") } else { name.to_owned() };
            let this = Extent { len: array.len - rest, ..array };
            self.add(&name, &ArrayBytes::File(this)).map_err(|error| {
                if start == 0 {
                    error
                } else {
                    error.tensor(&name).context(format!("array {number}, at byte {start}"))
                }
            })?;
            start += this.len;
            number += 1;
            if !self.is_array(file.after(start))? {
                break;
            }
        }
        if start < file.len {
            let why = format!(
                "{} bytes follow it and are not an array; ferry does not read them",
                file.len - start
            );
            self.catalog.loss(Loss::new(LossKind::Tensor, name, why))?;
        }
        Ok(())
    }

    /// Returns the number of bytes that follow the array at the start of an extent.
    fn length(&self, file: Extent) -> Result<u64> {
        let (limits, array) = (self.context.limits(), ArrayBytes::File(file));
        let header = Header::read(limits, &|len| array.front(self.source, len, limits))?;
        Ok((file.len - header.len).saturating_sub(header.data_len()?))
    }

    fn is_array(&self, file: Extent) -> Result<bool> {
        let mut start = [0; MAGIC.len()];
        Ok(file.read_start(self.source, &mut start)? == MAGIC)
    }

    fn add_elements(
        &mut self,
        name: &str,
        array: &ArrayBytes,
        header: &Header,
        element: &Element,
    ) -> Result<()> {
        let lie = ElementLayout {
            order: header.order,
            byte_order: element.byte_order(),
            shape: &header.shape,
            inner: &[],
        };
        if let Element::Unicode(..) | Element::Text(_) = element {
            let elements = collect(array.len(), self.context.limits(), |output| {
                array.write(self.source, output, self.context)
            })?;
            let elements =
                elements.get(usize::try_from(header.len).unwrap_or(usize::MAX)..).unwrap_or_default();
            return self.add_strings(name, elements, element, header.order, &header.shape);
        }
        let (dtype, inner) = self.number(name, element)?;
        let (storage, offset) = self.storage(array, header, lie.byte_order)?;
        self.tensor(name, dtype, ElementLayout { inner: &inner, ..lie }, storage, offset)
    }

    /// Declares the storage of an array. Returns the storage and the offset of the elements in it.
    fn storage(
        &mut self,
        array: &ArrayBytes,
        header: &Header,
        byte_order: ByteOrder,
    ) -> Result<(StorageId, u64)> {
        let (storage, offset) = match array {
            ArrayBytes::File(file) => {
                let data = file.after(header.len);
                (Storage::file(data.file, data.offset, data.len), 0)
            }
            ArrayBytes::Member(member) if member.method == Method::Stored => {
                (self.stored(member, header.len)?, 0)
            }
            ArrayBytes::Member(member) => {
                (self.encode(Encoded::Whole(array.clone()), member.len), header.len)
            }
        };
        Ok((self.catalog.storage(storage.byte_order(byte_order))?, offset))
    }

    /// Returns the storage of a stored member's elements. The archive's checksum covers the header
    /// and the elements, so the checksum of the elements is computed from it.
    fn stored(&self, member: &Member, header_len: u64) -> Result<Storage> {
        let header = member.front(self.source, header_len, self.context.limits())?;
        let (crc, data) = (member.crc_after(&header), member.stored.after(header_len));
        if data.len == 0 && crc != 0 {
            return Err(Error::malformed(format!(
                "zip entry {:?} does not match the CRC-32 in the directory",
                member.name
            ))
            .offset(member.stored.offset));
        }
        Ok(Storage::file(data.file, data.offset, data.len).digest(Digest::crc32(crc)))
    }

    /// Counts the bytes by which a deflated member expands. Returns an error if the members counted
    /// so far expand by too much.
    fn count_expanded(&mut self, array: &ArrayBytes) -> Result<()> {
        let ArrayBytes::Member(member) = array else { return Ok(()) };
        self.expanded = self.expanded.saturating_add(member.len.saturating_sub(member.stored.len));
        let max = self.context.limits().expanded_bytes;
        if self.expanded <= max {
            return Ok(());
        }
        Err(Error::limit("deflated arrays expand too much")
            .hint("raise the limit with --limit expanded_bytes=N")
            .expected(format!("at most {max} bytes more than stored"))
            .found(self.expanded))
    }

    fn encode(&mut self, encoded: Encoded, len: u64) -> Storage {
        self.encoded.push(encoded);
        Storage::encoded(self.encoded.len() as u64 - 1, len)
    }

    /// Adds each field of a structured array as a tensor.
    fn add_fields(
        &mut self,
        name: &str,
        array: &ArrayBytes,
        header: &Header,
        structure: &Structure,
        data_len: u64,
    ) -> Result<()> {
        // If a row has a length of 0 bytes, there is nothing to read, regardless of the number of
        // rows.
        let rows = data_len.checked_div(structure.width).unwrap_or(0);
        for field in &structure.fields {
            let name = format!("{name}.{}", field.name);
            let bytes = FieldBytes {
                array: array.clone(),
                header_len: header.len,
                rows,
                row_len: structure.width,
                offset: field.offset,
                width: field.width,
            };
            if let Element::Unicode(..) | Element::Text(_) = field.element {
                let elements = collect(bytes.len(), self.context.limits(), |output| {
                    bytes.write(self.source, output, self.context)
                })?;
                if header.order == Order::Fortran && header.shape.len() > 1 {
                    return Err(Error::unsupported("strings in a column-major structured array").tensor(name));
                }
                let shape = [&header.shape[..], &field.shape].concat();
                self.add_strings(&name, &elements, &field.element, Order::C, &shape)?;
                continue;
            }
            let (dtype, inner) = self.number(&name, &field.element)?;
            let inner = [&field.shape[..], &inner].concat();
            let lie = ElementLayout {
                order: header.order,
                byte_order: field.element.byte_order(),
                shape: &header.shape,
                inner: &inner,
            };
            let len = bytes.len();
            let storage = self.encode(Encoded::Field(bytes), len).byte_order(lie.byte_order);
            let storage = self.catalog.storage(storage)?;
            self.tensor(&name, dtype, lie, storage, 0)?;
        }
        Ok(())
    }

    fn add_strings(
        &mut self,
        name: &str,
        elements: &[u8],
        element: &Element,
        order: Order,
        shape: &[u64],
    ) -> Result<()> {
        let logical = strings::logical(elements, element, order, shape, self.context.limits())?;
        let storage = self.catalog.storage(Storage::inline(logical))?;
        let name = &self.names.take_for(self.catalog, name.to_owned())?;
        self.catalog.tensor(name, Dtype::STR, shape, storage, 0).map(drop)
    }

    /// Returns the dtype and inner dimensions of an element that is not a string.
    fn number(&mut self, name: &str, element: &Element) -> Result<(Dtype, Vec<u64>)> {
        let options = self.options;
        match element {
            Element::Number(dtype, _) => Ok((*dtype, Vec::new())),
            Element::Date(unit, _) => {
                let why = format!("{unit} is read as integer counts; NaT is the smallest integer");
                self.catalog.loss(Loss::new(LossKind::Precision, name, why).severity(Severity::Changed))?;
                Ok((Dtype::I64, Vec::new()))
            }
            Element::Void(1) if options.v1.is_some() => Ok((options.v1.unwrap_or(Dtype::U8), Vec::new())),
            Element::Void(2) if options.v2.is_some() => Ok((options.v2.unwrap_or(Dtype::U16), Vec::new())),
            Element::Void(len) if options.bytes => Ok((Dtype::U8, vec![*len])),
            Element::Void(len) => {
                let named = match len {
                    1 => "set their dtype with -i v1=f8_e4m3 (or another dtype), or ",
                    2 => "set their dtype with -i v2=bf16, or ",
                    _ => "",
                };
                let why = format!("elements of {len} bytes have no dtype in numpy (V{len})");
                Err(Error::unsupported(format!("{why}; {named}read them as U8 with -i void=bytes")))
            }
            Element::Unicode(..) | Element::Text(_) => Err(Error::plugin("a string is not a number")),
        }
    }

    fn tensor(
        &mut self,
        name: &str,
        dtype: Dtype,
        lie: ElementLayout<'_>,
        storage: StorageId,
        offset: u64,
    ) -> Result<()> {
        let shape = [lie.shape, lie.inner].concat();
        let name = &self.names.take_for(self.catalog, name.to_owned())?;
        if lie.order == Order::C || lie.shape.len() < 2 || shape.contains(&0) {
            return self.catalog.tensor(name, dtype, &shape, storage, offset).map(drop);
        }
        let strides = column_major_strides(lie.shape, lie.inner);
        let block = Block { region: Region::whole(&shape), storage, offset, strides };
        self.catalog.tensor_of_blocks(name, dtype, &shape, vec![block]).map(drop)
    }
}

/// Returns the strides of a column-major array whose elements are row-major arrays.
fn column_major_strides(shape: &[u64], inner: &[u64]) -> Vec<i64> {
    let signed = |dim: u64| i64::try_from(dim).unwrap_or(i64::MAX);
    let mut stride = inner.iter().fold(1_i64, |product, &dim| product.saturating_mul(signed(dim)));
    let mut strides = Vec::with_capacity(shape.len() + inner.len());
    for &dim in shape {
        strides.push(stride);
        // The number of elements fits in 64 bits, so this product fits too. The value after the
        // last dimension is not used.
        stride = stride.saturating_mul(signed(dim));
    }
    strides.extend(row_major_strides(inner));
    strides
}
