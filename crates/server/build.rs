//! Refuses a release without the web UI in it. A development build does without: the server then says so on its page.

#![expect(clippy::disallowed_methods, reason = "the environment and files are what a build script asks about")]

use std::env::var_os;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-env-changed=BATON_WITHOUT_UI");
    if var_os("PROFILE").is_none_or(|profile| profile != "release") {
        // Outside a release the files are read when they are asked for, so nothing here depends on them. But the folder has to be
        // there: what is compiled in is its resolved name, and a name that cannot be resolved finds nothing later.
        println!("cargo::rerun-if-changed=build.rs");
        if let Err(error) = std::fs::create_dir_all("../../web/dist") {
            println!("cargo::warning=web/dist cannot be made ({error}), so this build will not find the web UI");
        }
        return;
    }
    println!("cargo::rerun-if-changed=../../web/dist");
    let built = Path::new("../../web/dist/index.html").exists();
    let waived = var_os("BATON_WITHOUT_UI").is_some_and(|value| value == "1");
    assert!(
        built || waived,
        "the web UI is not built, and a release must hold it. Build it first (npm ci && npm run build, in web/), \
         or set BATON_WITHOUT_UI=1 to make a release that serves the API alone."
    );
}
