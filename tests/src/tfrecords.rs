//! Hand-built TFRecord files of Examples.
//!
//! A record consists of the length of the data (u64), the masked CRC-32C of those eight bytes, the
//! data, and the masked CRC-32C of the data
//! (<https://www.tensorflow.org/tutorials/load_data/tfrecord>).

use crate::table::masked_crc;
use crate::wire::{Wire, varint};

/// The list of values in a feature.
#[derive(Debug, Clone)]
pub enum Feature {
    Ints(Vec<i64>),
    Floats(Vec<f32>),
    Bytes(Vec<Vec<u8>>),
}

/// Returns an encoded Example with these features.
pub fn example(features: &[(&str, Feature)]) -> Vec<u8> {
    let mut map = Wire::new();
    for (name, feature) in features {
        let feature = match feature {
            Feature::Bytes(values) => {
                let list = values.iter().fold(Wire::new(), |list, value| list.bytes(1, value));
                Wire::new().message(1, &list)
            }
            Feature::Floats(values) => {
                let packed: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                Wire::new().message(2, &Wire::new().bytes(1, &packed))
            }
            Feature::Ints(values) => {
                let mut packed = Vec::new();
                values.iter().for_each(|value| varint(&mut packed, value.cast_unsigned()));
                Wire::new().message(3, &Wire::new().bytes(1, &packed))
            }
        };
        map = map.message(1, &Wire::new().bytes(1, name.as_bytes()).message(2, &feature));
    }
    Wire::new().message(1, &map).0
}

/// Returns a file of records.
pub fn file(records: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for data in records {
        let len = (data.len() as u64).to_le_bytes();
        bytes.extend(len);
        bytes.extend(masked_crc(&len).to_le_bytes());
        bytes.extend(&data);
        bytes.extend(masked_crc(&data).to_le_bytes());
    }
    bytes
}
