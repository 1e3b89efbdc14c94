//! Converts a file between the formats that are linked into this program: `linked INPUT OUTPUT`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let paths: Vec<String> = std::env::args().skip(1).collect();
    let formats = tensorferry_torch::formats().into_iter().chain(tensorferry_safetensors::formats());
    let registry = tensorferry::Registry::new().with_all(formats);
    let report = registry.convert(&paths[0], &paths[1]).verify(true).run()?;
    println!("{} tensors", report.tensors);
    Ok(())
}
