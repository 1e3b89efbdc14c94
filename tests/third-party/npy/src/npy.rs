//! `.npy`: a file that is one array. Its tensor is named by the file.

use crate::array;
use crate::header::{Header, MAGIC};
use tensorferry_sdk::{
    ByteOrder, Capabilities, CatalogSink, CatalogView, Context, Description, Entry, Error, Format,
    LayoutSink, Loss, LossKind, NothingEncoded, NothingToSeal, Options, Order, Result, Role, Side, Source,
    Storage, Target, TensorDecoder, TensorId, TensorPart, TensorPlan, TensorReader, TensorWriter,
    TypedOption,
};

const ORDER: TypedOption<Order> = TypedOption::choice(
    Side::Writer,
    "order",
    &[("c", Order::C), ("fortran", Order::Fortran)],
    "which index runs fastest: c the last, fortran the first",
);
const BYTE_ORDER: TypedOption<ByteOrder> = TypedOption::choice(
    Side::Writer,
    "byte_order",
    &[("little", ByteOrder::Little), ("big", ByteOrder::Big)],
    "which byte of a number comes first",
);

/// The format `npy`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Npy;

impl Format for Npy {
    fn describe(&self) -> Description {
        Description::new("npy", "numpy array")
            .suffixes([".npy"])
            .magic(0, MAGIC)
            .capabilities(Capabilities::READ | Capabilities::WRITE)
            .options([ORDER.spec(), BYTE_ORDER.spec()])
            .output_revision(1)
    }

    fn reader(&self, _options: &Options) -> Result<Box<dyn TensorReader>> {
        Ok(Box::new(Reader))
    }

    fn writer(&self, options: &Options) -> Result<Box<dyn TensorWriter>> {
        Ok(Box::new(Writer { order: ORDER.get(options)?, byte_order: BYTE_ORDER.get(options)? }))
    }
}

struct Reader;

impl TensorReader for Reader {
    fn read(
        &self,
        source: &dyn Source,
        catalog: &mut dyn CatalogSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorDecoder>> {
        let Entry::File(path) = source.entry() else {
            return Err(Error::usage("an array is read from one .npy file"));
        };
        let file = source.open(path)?;
        let front = |len| source.read_vec(file, 0, len, context.limits());
        let (header, len) = Header::read(&front).map_err(|e| e.file(path))?;
        let storage = Storage::file(file, len, source.len(file) - len);
        array::add(catalog, stem(path), &header, storage, 0).map_err(|e| e.file(path))?;
        Ok(Box::new(NothingEncoded))
    }
}

/// The file's name without its folder and its suffix.
fn stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.strip_suffix(".npy").unwrap_or(name)
}

struct Writer {
    order: Order,
    byte_order: ByteOrder,
}

impl TensorWriter for Writer {
    fn plan(
        &self,
        catalog: &dyn CatalogView,
        target: &Target,
        layout: &mut dyn LayoutSink,
        _context: &dyn Context,
    ) -> Result<Box<dyn TensorPlan>> {
        if catalog.tensor_count() != 1 {
            return Err(Error::usage("a .npy file holds one tensor: write a .npz, or select one")
                .expected("1 tensor")
                .found(catalog.tensor_count()));
        }
        let id = TensorId(0);
        let tensor = catalog.tensor(id);
        let header = Header {
            dtype: tensor.dtype,
            byte_order: self.byte_order,
            order: self.order,
            shape: tensor.shape.to_vec(),
        };
        let Some(bytes) = header.to_bytes() else {
            let dtype = catalog.dtype_info(tensor.dtype)?;
            return Err(Error::unsupported(format!("numpy has no {}", dtype.name())).tensor(tensor.name));
        };
        let path = match target {
            Target::File(path) => path,
            Target::Folder => "array.npy",
        };
        if tensor.name != stem(path) {
            let why = format!("a .npy file has no names; it will be read as {:?}", stem(path));
            layout.loss(Loss::new(LossKind::Name, tensor.name, why))?;
        }
        let file = layout.file(path, Role::Data)?;
        layout.bytes(file, &bytes)?;
        layout.tensor(
            file,
            TensorPart { tensor: id, region: None, order: self.order, byte_order: self.byte_order },
        )?;
        Ok(Box::new(NothingToSeal))
    }
}
