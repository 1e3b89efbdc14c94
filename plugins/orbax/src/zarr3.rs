//! In zarr 3, the JSON object in `zarr.json` describes an array. A codec may split chunks into
//! shards.

use crate::codec::{Chain, Compressor};
use crate::dtype;
use crate::encoding::{Encoding, Keys, Layers};
use crate::json::Json;
use tensorferry_sdk::{ByteOrder, Error, Limits, Order, Result};

/// Maximum number of layers of shards.
const MAX_SHARDS: usize = 2;

pub(crate) fn parse(bytes: &[u8], limits: &Limits) -> Result<Encoding> {
    let json = Json::parse(bytes, limits)?;
    let expect = |key: &str, value: &Json, found: &Json| {
        let error = || Error::malformed(format!("unexpected {key}")).expected(format!("{value:?}"));
        if found == value { Ok(()) } else { Err(error().found(format!("{found:?}"))) }
    };
    expect("zarr_format", &Json::Int(3), json.get("zarr_format"))?;
    expect("node_type", &Json::Text("array".to_owned()), json.get("node_type"))?;
    expect("chunk_grid", &Json::Text("regular".to_owned()), json.get("chunk_grid").get("name"))?;
    if json.get("storage_transformers").list().is_some_and(|list| !list.is_empty()) {
        return Err(Error::unsupported("the array has storage transformers"));
    }
    let keys = json.get("chunk_key_encoding");
    let has_c = match keys.get("name").text() {
        Some("default") => true,
        Some("v2") => false,
        _ => {
            return Err(Error::unsupported("unknown chunk_key_encoding").found(format!("{keys:?}")));
        }
    };
    let separator = match keys.get("configuration").get("separator") {
        Json::Null => {
            if has_c {
                '/'
            } else {
                '.'
            }
        }
        Json::Text(text) if text == "/" => '/',
        Json::Text(text) if text == "." => '.',
        other => {
            let error = Error::malformed("invalid chunk key separator").expected("\".\" or \"/\"");
            return Err(error.found(format!("{other:?}")));
        }
    };
    let mut encoding = Encoding {
        shape: json.get("shape").dims("shape")?,
        dtype: dtype::of_zarr3(json.get("data_type"))?,
        byte_order: ByteOrder::Little,
        order: Order::C,
        fill: json.get("fill_value").clone(),
        keys: Keys { separator, has_c },
        layers: Layers {
            tiles: vec![json.get("chunk_grid").get("configuration").get("chunk_shape").dims("chunk_shape")?],
            index_at_start: Vec::new(),
        },
        chain: Chain::default(),
    };
    let mut codecs = list(json.get("codecs"))?;
    while let [codec] = codecs
        && name_of(codec) == "sharding_indexed"
    {
        if encoding.layers.index_at_start.len() >= MAX_SHARDS {
            return Err(Error::unsupported("shards are nested too deeply"));
        }
        let shard = codec.get("configuration");
        check_index_codecs(list(shard.get("index_codecs"))?)?;
        let at_start = match shard.get("index_location") {
            Json::Null => false,
            Json::Text(text) if text == "end" => false,
            Json::Text(text) if text == "start" => true,
            other => return Err(Error::malformed("invalid index_location").found(format!("{other:?}"))),
        };
        encoding.layers.index_at_start.push(at_start);
        encoding.layers.tiles.push(shard.get("chunk_shape").dims("a shard's chunk_shape")?);
        codecs = list(shard.get("codecs"))?;
    }
    apply(codecs, &mut encoding)?;
    Ok(encoding)
}

fn list(codecs: &Json) -> Result<&[Json]> {
    codecs
        .list()
        .filter(|codecs| !codecs.is_empty())
        .ok_or_else(|| Error::malformed("the list of codecs is missing"))
}

/// Returns the name of a codec. The codec may be an object or only a name.
fn name_of(codec: &Json) -> &str {
    codec.text().or_else(|| codec.get("name").text()).unwrap_or_default()
}

/// Checks that the index of a shard has the codecs that tensorstore and zarr-python use.
fn check_index_codecs(codecs: &[Json]) -> Result<()> {
    let is_usual = matches!(codecs, [bytes, crc] if name_of(bytes) == "bytes" && name_of(crc) == "crc32c"
        && bytes.get("configuration").get("endian").text().is_none_or(|endian| endian == "little"));
    if is_usual {
        return Ok(());
    }
    let named = |codec: &Json| match codec.get("configuration").get("endian").text() {
        Some(endian) => format!("{} ({endian})", name_of(codec)),
        None => name_of(codec).to_owned(),
    };
    let names: Vec<String> = codecs.iter().map(named).collect();
    Err(Error::unsupported("unsupported codecs in the index of a shard")
        .expected("bytes (little), crc32c")
        .found(names.join(", ")))
}

/// Applies the codecs of a chunk to `encoding`: dimension order, byte order, compressor and
/// checksums.
fn apply(codecs: &[Json], encoding: &mut Encoding) -> Result<()> {
    let mut has_bytes = false;
    for codec in codecs {
        let configuration = codec.get("configuration");
        match (name_of(codec), has_bytes) {
            ("transpose", false) => {
                let order = configuration.get("order").dims("the order of a transpose")?;
                let rank = order.len() as u64;
                if order.iter().copied().eq(0..rank) {
                } else if order.iter().copied().eq((0..rank).rev()) && encoding.order == Order::C {
                    encoding.order = Order::Fortran;
                } else {
                    let error = Error::unsupported("a transpose does not reverse all dimensions");
                    return Err(error.found(format!("{order:?}")));
                }
            }
            ("bytes", false) => {
                has_bytes = true;
                if configuration.get("endian").text() == Some("big") {
                    encoding.byte_order = ByteOrder::Big;
                }
            }
            ("crc32c", true) => encoding.chain.checksums += 1,
            (name, true) if encoding.chain == Chain::default() => {
                encoding.chain.compressor = Some(Compressor::named(name)?);
            }
            (name, _) => {
                return Err(Error::unsupported("unknown codec at this position").found(format!("{name:?}")));
            }
        }
    }
    if has_bytes { Ok(()) } else { Err(Error::malformed("the codec `bytes` is missing")) }
}
