//! Lists the tensors of a model, using the plugins in a folder: `cargo run --example inspect --
//! target/release model.safetensors`

use tensorferry::Registry;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [plugins, input] = arguments.as_slice() else {
        return Err("usage: inspect PLUGIN_FOLDER INPUT".into());
    };
    let model = Registry::load([plugins]).open(input)?;
    println!("{}, {} tensors", model.format().description.title, model.tensors().len());
    for tensor in model.tensors() {
        println!(
            "{:>12}  {:<6} {:?}  {}",
            tensor.byte_len(),
            tensor.dtype_name(),
            tensor.shape(),
            tensor.name()
        );
    }
    for loss in model.losses() {
        println!("not shown: {}: {}", loss.what, loss.why);
    }
    Ok(())
}
