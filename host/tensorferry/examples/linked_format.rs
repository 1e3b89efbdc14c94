//! Links a format into the program, without a plugin. The format reads a text file with one number
//! per line as a tensor. Run this example with `cargo run --example linked_format -- numbers.txt`.

use tensorferry::{Dtype, Error, Registry, Result};
use tensorferry_sdk::{
    Capabilities, CatalogSink, Context, Description, Format, NothingEncoded, Options, Source, Storage,
    TensorDecoder, TensorReader,
};

struct Numbers;

impl Format for Numbers {
    fn describe(&self) -> Description {
        Description::new("numbers", "one number per line").suffixes([".txt"]).capabilities(Capabilities::READ)
    }

    fn reader(&self, _options: &Options) -> Result<Box<dyn TensorReader>> {
        Ok(Box::new(Numbers))
    }
}

impl TensorReader for Numbers {
    fn read(
        &self,
        source: &dyn Source,
        catalog: &mut dyn CatalogSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorDecoder>> {
        let path = source.entry().name();
        let file = source.open(path)?;
        // `read_vec` rejects a file that is longer than the limit for headers.
        let text = source.read_vec(file, 0, source.len(file), context.limits())?;
        let text = String::from_utf8(text).map_err(|_| Error::malformed("not UTF-8").file(path))?;
        let numbers = text.lines().map(|line| {
            let number = line.trim().parse::<f64>();
            number.map_err(|_| Error::malformed("not a number").file(path).found(format!("{line:?}")))
        });
        let numbers: Vec<f64> = numbers.collect::<Result<_>>()?;
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let storage = catalog.storage(Storage::inline(bytes))?;
        catalog.tensor("numbers", Dtype::F64, &[numbers.len() as u64], storage, 0)?;
        Ok(Box::new(NothingEncoded))
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let input = std::env::args().nth(1).ok_or("usage: linked_format FILE")?;
    let tensor = Registry::new().with(Box::new(Numbers)).open(input)?.tensor("numbers")?;
    let bytes = tensor.read()?;
    let numbers = bytes.chunks_exact(8).map(|bytes| f64::from_le_bytes(bytes.try_into().unwrap_or_default()));
    println!("{} numbers, sum {}", tensor.shape()[0], numbers.sum::<f64>());
    Ok(())
}
