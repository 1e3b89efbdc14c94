//! Compiles the `.proto` files to Rust. The build uses `protox` instead of `protoc`, so cargo is
//! the only required tool.

#[cfg(feature = "messages")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use prost::Message;

    const ROOT: &str = "proto";
    /// The `.proto` files that no other file imports. The compiler also compiles the files that
    /// they import.
    const FILES: [&str; 6] = [
        "tensorflow/core/example/example.proto",
        "tensorflow/core/protobuf/fingerprint.proto",
        "tensorflow/core/protobuf/saved_model.proto",
        "tensorflow/core/protobuf/tensor_bundle.proto",
        "tensorflow/core/util/saved_tensor_slice.proto",
        "tensorflow/python/training/checkpoint_state.proto",
    ];
    println!("cargo::rerun-if-changed={ROOT}");
    let descriptors = protox::compile(FILES, [ROOT])?;
    let folder = std::path::PathBuf::from(std::env::var_os("OUT_DIR").ok_or("OUT_DIR is set by cargo")?);
    std::fs::write(folder.join("descriptors.bin"), descriptors.encode_to_vec())?;
    // Generate sorted maps, so that encoding the same message always produces the same bytes.
    prost_build::Config::new().btree_map(["."]).compile_fds(descriptors)?;
    Ok(())
}

#[cfg(not(feature = "messages"))]
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
