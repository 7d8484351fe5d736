//! The vendors' official JavaScript clients accept the scripted model (tests/js/*_client.mjs say what that means).
//!
//! It needs Node 22 and the clients: `npm ci` in tests/js, or in any folder with that package.json that `BATON_JS_CLIENTS` names.
//! Without them the tests fail and say so, because a format that nobody checked is not the vendor's. They talk to this machine alone.
#![expect(clippy::disallowed_methods, reason = "starts Node, which is the client under whose eyes the format is")]
#![expect(clippy::unwrap_used, reason = "a test; clippy sees tests only where `#[test]` stands")]

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use adapters::model::Scripts;
use adapters::model::scripted::{ServeOptions, serve};
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

const PATIENCE: Duration = Duration::from_secs(120);

const SCRIPT: &str = r#"
name: vendor
rules:
  - name: plain
    when: { request: plain }
    pace: { chunk: 5 }
    reasoning: "Hm.\n"
    respond: "  <file path=\"a.ts\">\n\tlet a = \"ü🚀\";\n</file>\n"
    usage: { input: 7, cached: 3, output: 5, reasoning: 1 }
    finish: length
  - { name: well, when: { request: well }, respond: well }
  - { name: rate, when: { request: rate }, fault: { status: 429, retry_after: '9' } }
  - { name: key, when: { request: key }, fault: { status: 401 } }
  - { name: broken, when: { request: broken }, fault: { status: 500 } }
  - { name: busy, when: { request: busy }, fault: { status: 503 } }
  - { name: unsafe, when: { request: unsafe }, fault: { status: 400, code: content_filter } }
  - { name: error, when: { request: error }, respond: '1234567', fault: { error_after: 5 } }
  - { name: malformed, when: { request: malformed }, respond: '1234567', fault: { malformed_after: 5 } }
  - { name: break, when: { request: break }, respond: '1234567', fault: { break_after: 5 } }
  - { name: stall, when: { request: stall }, respond: '1234567', fault: { stall_after: 5 } }
  - { name: later, when: { request: later, times: 2 }, fault: { status: 429, retry_after: '0.01' } }
  - { name: now, when: { request: later }, respond: now }
"#;

/// The folder in which the vendors' clients are installed.
fn installed(package: &str) -> PathBuf {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/js");
    let folder = std::env::var_os("BATON_JS_CLIENTS").map_or_else(|| ours.clone(), PathBuf::from);
    assert!(
        folder.join("node_modules").join(package).is_dir(),
        "{package} is not installed in {}: run `npm ci --ignore-scripts` in {} (scripts/test does), or name another folder with \
         BATON_JS_CLIENTS",
        folder.display(),
        ours.display(),
    );
    folder
}

/// Puts our program beside the installed client: modules are looked up from where a script stands.
fn placed(folder: &Path, program: &str) -> PathBuf {
    let (ours, there) = (Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/js").join(program), folder.join(program));
    if !there.exists() || std::fs::read(&there).unwrap() != std::fs::read(&ours).unwrap() {
        std::fs::copy(&ours, &there).unwrap();
    }
    there
}

/// Serves the script and runs a client's program against it, which is given the address with `path`.
async fn accepts(package: &str, program: &str, path: &str, checks: usize) {
    let folder = installed(package);
    placed(&folder, "run.mjs");
    let program = placed(&folder, program);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}{path}", listener.local_addr().unwrap());
    let stop = CancellationToken::new();
    let scripts = Scripts::read([("vendor.yaml", SCRIPT)]).unwrap();
    let server = serve(listener, scripts, ServeOptions::default(), stop.clone());
    let node = std::env::var_os("BATON_NODE").unwrap_or_else(|| "node".into());
    let client = async {
        let mut command = Command::new(&node);
        command.arg(&program).arg(&base_url).stdin(Stdio::null()).kill_on_drop(true);
        let output = timeout(PATIENCE, command.output()).await.unwrap();
        stop.cancel();
        output.unwrap_or_else(|error| {
            panic!("Node could not be started as {}: {error}; name it with BATON_NODE", node.display())
        })
    };
    let (served, output) = tokio::join!(server, client);
    served.unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.matches("ok: ").count() == checks, "{told}");
}

#[tokio::test]
async fn openais_client_accepts_chat_completions_and_responses() {
    accepts("openai", "openai_client.mjs", "/v1", 13).await;
}

#[tokio::test]
async fn anthropics_client_accepts_messages() {
    accepts("@anthropic-ai/sdk", "anthropic_client.mjs", "", 8).await;
}

#[tokio::test]
async fn googles_client_accepts_generated_content() {
    accepts("@google/genai", "gemini_client.mjs", "", 8).await;
}
