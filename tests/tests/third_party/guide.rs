//! The guide's chapter on plugins, as it stands there: a plugin in Rust and one in C, from nothing to a conversion.

use crate::outside;
use tensorferry_tests::Ferry;
use tensorferry_tests::ferry::run;
use tensorferry_tests::guide::{Chapter, WITH_COMPILERS, clone};

#[test]
#[ignore = "builds crates out of the workspace"]
fn the_guides_plugins_are_built_as_it_says() {
    for name in WITH_COMPILERS {
        // Libraries are opened from folders alone that nobody else may write to: not below /tmp.
        let ferry = Ferry::on_disk();
        let clone = clone(ferry.home());
        std::fs::create_dir_all(outside::target()).unwrap();
        Chapter::read(name).check(&clone, |script| {
            // The plugin's crate is built where the tests build others: what it depends on is there already.
            let script = script.replacen("cd mine\n", "cd mine\nln -s \"$OUTSIDE\" target\n", 1);
            let mut shell = ferry.shell(&script);
            shell.current_dir(&clone).env("OUTSIDE", outside::target()).env_remove("CARGO_TARGET_DIR");
            shell.env(outside::PROFILE.0, outside::PROFILE.1);
            // What cargo has of the registry stays where it is.
            let home = std::env::var("HOME").unwrap_or_default();
            shell.env("CARGO_HOME", std::env::var("CARGO_HOME").unwrap_or(format!("{home}/.cargo")));
            shell.env("RUSTUP_HOME", std::env::var("RUSTUP_HOME").unwrap_or(format!("{home}/.rustup")));
            run(&mut shell)
        });
    }
}
