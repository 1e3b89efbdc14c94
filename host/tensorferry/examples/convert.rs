//! Converts a model with the plugins in a folder, and prints the progress: `cargo run --example
//! convert -- target/release model.pt model.safetensors cast:bf16`

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use tensorferry::Registry;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [plugins, input, output, steps @ ..] = arguments.as_slice() else {
        return Err("usage: convert PLUGIN_FOLDER INPUT OUTPUT [STEP ...]".into());
    };
    let registry = Registry::load([plugins]);
    let conversion = registry.convert(input, output).verify(true);
    let conversion = steps.iter().fold(conversion, |conversion, step| conversion.step(step));

    let (session, done) = (registry.session().clone(), Arc::new(AtomicBool::new(false)));
    let is_done = done.clone();
    let watcher = thread::spawn(move || {
        while !is_done.load(Ordering::Relaxed) {
            let (copied, all) = session.progress();
            eprint!("\r{copied} of {all} bytes");
            thread::sleep(Duration::from_millis(200));
        }
        eprintln!();
    });
    let report = conversion.run();
    done.store(true, Ordering::Relaxed);
    watcher.join().map_err(|_| "the progress thread panicked")?;

    let report = report?;
    println!("{} tensors, {} bytes in {:.2} s", report.tensors, report.bytes, report.seconds);
    for loss in &report.losses {
        println!("lost: {}: {}", loss.what, loss.why);
    }
    Ok(())
}
