//! In zarr 2, the JSON object in `.zarray` describes an array.

use crate::codec::{Chain, Compressor};
use crate::dtype;
use crate::encoding::{Encoding, Keys, Layers};
use crate::json::Json;
use tensorferry_sdk::{Error, Limits, Order, Result};

pub(crate) fn parse(bytes: &[u8], limits: &Limits) -> Result<Encoding> {
    let json = Json::parse(bytes, limits)?;
    if json.get("zarr_format") != &Json::Int(2) {
        return Err(Error::malformed("unexpected zarr_format")
            .expected(2)
            .found(format!("{:?}", json.get("zarr_format"))));
    }
    if !json.get("filters").is_null() && json.get("filters").list() != Some(&[]) {
        return Err(Error::unsupported("the array has filters").found(format!("{:?}", json.get("filters"))));
    }
    let (dtype, byte_order) = dtype::of_zarr2(json.get("dtype"))?;
    let separator = match json.get("dimension_separator") {
        Json::Null => '.',
        Json::Text(text) if text == "." => '.',
        Json::Text(text) if text == "/" => '/',
        other => {
            let error = Error::malformed("invalid dimension_separator").expected("\".\" or \"/\"");
            return Err(error.found(format!("{other:?}")));
        }
    };
    let order = match json.get("order").text() {
        Some("C") => Order::C,
        Some("F") => Order::Fortran,
        _ => return Err(Error::malformed("invalid order").expected("C or F")),
    };
    let compressor = match json.get("compressor") {
        Json::Null => None,
        compressor => Some(Compressor::named(compressor.get("id").text().unwrap_or_default())?),
    };
    Ok(Encoding {
        shape: json.get("shape").dims("shape")?,
        dtype,
        byte_order,
        order,
        fill: json.get("fill_value").clone(),
        keys: Keys { separator, has_c: false },
        layers: Layers { tiles: vec![json.get("chunks").dims("chunks")?], index_at_start: Vec::new() },
        chain: Chain { compressor, checksums: 0 },
    })
}
