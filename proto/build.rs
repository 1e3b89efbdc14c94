//! Compiles the `.proto` files to Rust. `protox` stands in for `protoc`, so that a build needs no
//! program that cargo does not bring.

use std::error::Error;

const ROOT: &str = "proto";
/// The files that no other one imports; imports come along.
const FILES: [&str; 1] = ["tensorflow/core/protobuf/tensor_bundle.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={ROOT}");
    let descriptors = protox::compile(FILES, [ROOT])?;
    prost_build::Config::new().compile_fds(descriptors)?;
    Ok(())
}
