//! Hand-made pickles.

/// Returns a pickle of protocol 2 with this body, which creates one value.
pub fn pickle(body: &[u8]) -> Vec<u8> {
    [b"\x80\x02", body, b"."].concat()
}

pub fn global(module: &str, name: &str) -> Vec<u8> {
    format!("c{module}\n{name}\n").into_bytes()
}

pub fn text(text: &str) -> Vec<u8> {
    [b"X", &u32::try_from(text.len()).unwrap().to_le_bytes()[..], text.as_bytes()].concat()
}

/// Returns the instruction for an integer: BININT, or LONG1 if the integer is too large for BININT.
pub fn int(value: i64) -> Vec<u8> {
    match i32::try_from(value) {
        Ok(value) => [b"J", &value.to_le_bytes()[..]].concat(),
        Err(_) => [b"\x8a\x08", &value.to_le_bytes()[..]].concat(),
    }
}

pub fn tuple(items: &[Vec<u8>]) -> Vec<u8> {
    [b"(", &items.concat()[..], b"t"].concat()
}

pub fn ints(values: &[i64]) -> Vec<u8> {
    tuple(&values.iter().map(|&value| int(value)).collect::<Vec<_>>())
}

pub fn list(items: &[Vec<u8>]) -> Vec<u8> {
    [b"](", &items.concat()[..], b"e"].concat()
}

pub fn dict(entries: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let entries: Vec<u8> = entries.iter().flat_map(|(key, value)| [&key[..], value].concat()).collect();
    [b"}(", &entries[..], b"u"].concat()
}

pub fn call(function: &[u8], arguments: &[Vec<u8>]) -> Vec<u8> {
    [function, &tuple(arguments), b"R"].concat()
}

pub fn storage(class: &str, key: &str, len: i64) -> Vec<u8> {
    let module = if class == "UntypedStorage" { "torch.storage" } else { "torch" };
    let id = tuple(&[text("storage"), global(module, class), text(key), text("cpu"), int(len)]);
    [&id[..], b"Q"].concat()
}

/// Returns the instructions for a tensor that `_rebuild_tensor_v2` creates.
pub fn tensor(storage: Vec<u8>, offset: i64, size: &[i64], stride: &[i64]) -> Vec<u8> {
    let hooks = call(&global("collections", "OrderedDict"), &[]);
    let function = global("torch._utils", "_rebuild_tensor_v2");
    call(&function, &[storage, int(offset), ints(size), ints(stride), b"\x89".to_vec(), hooks])
}

/// Returns the instructions for a tensor that `_rebuild_tensor_v2` creates, with metadata.
pub fn lazy_tensor(storage: Vec<u8>, size: &[i64], stride: &[i64], bits: &[&str]) -> Vec<u8> {
    let bits: Vec<_> = bits.iter().map(|bit| (text(bit), b"\x88".to_vec())).collect();
    let function = global("torch._utils", "_rebuild_tensor_v2");
    call(
        &function,
        &[storage, int(0), ints(size), ints(stride), b"\x89".to_vec(), b"N".to_vec(), dict(&bits)],
    )
}

/// Returns the instructions for a tensor that `_rebuild_tensor_v3` creates from an untyped storage.
pub fn tensor_v3(key: &str, bytes: i64, size: &[i64], stride: &[i64], dtype: &str) -> Vec<u8> {
    let function = global("torch._utils", "_rebuild_tensor_v3");
    let storage = storage("UntypedStorage", key, bytes);
    let flag = b"\x89".to_vec();
    call(&function, &[storage, int(0), ints(size), ints(stride), flag, b"N".to_vec(), global("torch", dtype)])
}
