//! Writes a `.npy` file for a single tensor, or an archive of stored arrays like `np.savez`. The
//! elements start at multiples of 64 bytes, so that they can be memory-mapped. With `-o
//! compression=deflate`, the arrays are deflated (`deflate.rs`).

use crate::deflate::{Array, DeflatedArrays};
use crate::options::{MlDtypes, WriteOptions};
use crate::read::stem;
use crate::{ARRAY_SUFFIX, dtype, header};
use tensorferry_sdk::file_name::has_suffix;
use tensorferry_sdk::{
    CatalogView, Context, Digests, Dtype, Error, LayoutSink, Loss, LossKind, NothingToSeal, Order, Result,
    Role, SealSink, Target, TensorId, TensorPart, TensorPlan, TensorWriter,
};
use tensorferry_zip::{ZipLayout, ZipPlan};

/// File name of the archive if the output is a folder.
const IN_A_FOLDER: &str = "arrays.npz";
/// Maximum length of a zip entry's name in bytes.
const MAX_NAME_BYTES: usize = 0xffff;

pub(crate) struct Writer {
    pub(crate) options: WriteOptions,
}

impl TensorWriter for Writer {
    fn plan(
        &self,
        catalog: &dyn CatalogView,
        target: &Target,
        layout: &mut dyn LayoutSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorPlan>> {
        match target {
            Target::File(path) if has_suffix(path, ARRAY_SUFFIX) => self.plan_array(catalog, path, layout),
            Target::File(path) => self.plan_archive(catalog, path, layout, context),
            Target::Folder => self.plan_archive(catalog, IN_A_FOLDER, layout, context),
        }
    }
}

impl Writer {
    fn plan_array(
        &self,
        catalog: &dyn CatalogView,
        path: &str,
        layout: &mut dyn LayoutSink,
    ) -> Result<Box<dyn TensorPlan>> {
        if self.options.deflates {
            return Err(Error::usage("a .npy file cannot be compressed")
                .file(path)
                .hint("write a .npz file"));
        }
        if catalog.tensor_count() != 1 {
            let count = catalog.tensor_count();
            return Err(Error::usage(format!("a .npy file holds one tensor, but there are {count}"))
                .file(path)
                .hint("write a .npz file, or choose one tensor with --step select"));
        }
        let tensor = TensorId(0);
        let name = catalog.tensor(tensor).name;
        let header = match self.header(catalog, tensor, layout)? {
            Ok(header) => header,
            Err(why) => return Err(Error::unsupported(why).tensor(name)),
        };
        if name != stem(path) {
            let why = format!("a .npy file has no tensor names; it will be read as {:?}", stem(path));
            layout.loss(Loss::new(LossKind::Name, name, why))?;
            layout.written_as(tensor, stem(path))?;
        }
        let file = layout.file(path, Role::Data)?;
        layout.bytes(file, &header)?;
        layout.tensor(file, self.part(catalog, tensor))?;
        Ok(Box::new(NothingToSeal))
    }

    fn plan_archive(
        &self,
        catalog: &dyn CatalogView,
        path: &str,
        layout: &mut dyn LayoutSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorPlan>> {
        let mut arrays: Vec<Array> = Vec::new();
        for tensor in catalog.tensor_ids() {
            context.check_cancelled()?;
            let name = format!("{}{ARRAY_SUFFIX}", catalog.tensor(tensor).name);
            if name.contains('\0') || name.len() > MAX_NAME_BYTES {
                layout.omit(tensor, "its name is not a valid name for a zip archive member; rename it")?;
                continue;
            }
            match self.header(catalog, tensor, layout)? {
                Ok(header) => {
                    let size = catalog.tensor(tensor).bytes.checked_add(header.len() as u64);
                    let size =
                        size.ok_or_else(|| Error::unsupported("the array's length exceeds 64 bits"))?;
                    arrays.push(Array { tensor, name, header, size });
                }
                Err(why) => layout.omit(tensor, &why)?,
            }
        }
        let file = layout.file(path, Role::Data)?;
        if self.options.deflates {
            return Ok(Box::new(DeflatedArrays::plan(layout, file, arrays)?));
        }
        let mut archive = ZipLayout::new(layout, file, None);
        for Array { tensor, name, header, size } in arrays {
            archive.data(&name, size, |layout, file| {
                let start = layout.bytes(file, &header)?;
                layout.tensor(file, self.part(catalog, tensor))?;
                Ok(start)
            })?;
        }
        Ok(Box::new(ArchivePlan(archive.finish()?)))
    }

    /// Returns the header of a tensor, or the reason why numpy does not support the tensor.
    fn header(
        &self,
        catalog: &dyn CatalogView,
        tensor: TensorId,
        layout: &mut dyn LayoutSink,
    ) -> Result<Result<Vec<u8>, String>> {
        let view = catalog.tensor(tensor);
        let descr = match (dtype::descr(view.dtype), dtype::ml_name(view.dtype), self.options.ml_dtypes) {
            (Some(descr), ..) => descr,
            (None, Some(name), MlDtypes::Name) => name.to_owned(),
            (None, Some(name), MlDtypes::Void) => {
                let descr = if view.dtype == Dtype::BF16 { "<V2" } else { "|V1" };
                let why =
                    format!("stored as {descr} without its dtype; restore it with .view(ml_dtypes.{name})");
                layout.loss(Loss::new(LossKind::Precision, view.name, why).requested_by_user())?;
                descr.to_owned()
            }
            (None, Some(name), MlDtypes::Omit) => {
                let why = "write it with -o ml_dtypes=name or void, or widen it with --step cast:f32";
                return Ok(Err(format!("numpy has {name} only with the package ml_dtypes; {why}")));
            }
            (None, None, _) => {
                let name = catalog.dtype_info(view.dtype)?.name().to_owned();
                let strings =
                    if view.dtype == Dtype::STR { ", because its strings have a fixed width" } else { "" };
                return Ok(Err(format!("numpy has no dtype {name}{strings}")));
            }
        };
        header::encode(&descr, self.order(catalog, tensor), view.shape).map(Ok)
    }

    /// Returns the order in which to write the elements. With fewer than two dimensions, the orders
    /// are the same, and the result is C order.
    fn order(&self, catalog: &dyn CatalogView, tensor: TensorId) -> Order {
        if catalog.tensor(tensor).shape.len() > 1 { self.options.order } else { Order::C }
    }

    fn part(&self, catalog: &dyn CatalogView, tensor: TensorId) -> TensorPart {
        TensorPart { order: self.order(catalog, tensor), ..TensorPart::whole(tensor) }
    }
}

/// An archive whose checksums `seal` fills in.
struct ArchivePlan(ZipPlan);

impl TensorPlan for ArchivePlan {
    fn seal(&self, digests: &dyn Digests, output: &mut dyn SealSink, _context: &dyn Context) -> Result<()> {
        self.0.seal(digests, output)
    }
}
