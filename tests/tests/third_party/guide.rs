//! Tests the guide's chapter on plugins, which creates a plugin in Rust and a plugin in C, from an
//! empty folder to a conversion.

use crate::outside;
use tensorferry_tests::Ferry;
use tensorferry_tests::ferry::run;
use tensorferry_tests::guide::{Chapter, WITH_COMPILERS, clone};

#[test]
#[ignore = "builds crates out of the workspace"]
fn the_guides_plugins_are_built_as_it_says() {
    for name in WITH_COMPILERS {
        // The folder is not in /tmp, because libraries are opened only from folders that no other
        // user may write to.
        let ferry = Ferry::on_disk();
        let clone = clone(ferry.home());
        std::fs::create_dir_all(outside::target()).unwrap();
        Chapter::read(name).check(&clone, |script| {
            // The plugin's crate is built in the shared target folder, which already has its
            // dependencies.
            let script = script.replacen("cd mine\n", "cd mine\nln -s \"$OUTSIDE\" target\n", 1);
            let mut shell = ferry.shell(&script);
            shell.current_dir(&clone).env("OUTSIDE", outside::target()).env_remove("CARGO_TARGET_DIR");
            shell.env(outside::PROFILE.0, outside::PROFILE.1);
            // Cargo's registry stays in the real home folder.
            let home = std::env::var("HOME").unwrap_or_default();
            shell.env("CARGO_HOME", std::env::var("CARGO_HOME").unwrap_or(format!("{home}/.cargo")));
            shell.env("RUSTUP_HOME", std::env::var("RUSTUP_HOME").unwrap_or(format!("{home}/.rustup")));
            run(&mut shell)
        });
    }
}
