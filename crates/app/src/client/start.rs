//! Starting a server for a command that needs one: `baton up` as a process of its own, which outlives the command.

#![expect(clippy::disallowed_methods, reason = "starts baton itself and writes its log")]

use std::fs::{self, OpenOptions};
use std::net::TcpListener;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use tokio::time::{Instant, sleep};

use super::{ClientArgs, address_of, http, is_alive, is_ready};
use crate::config;
use crate::data::DataDir;
use crate::exit::Refusal;
use crate::output;

/// How long a server may take to become ready.
const READY_MOST: Duration = Duration::from_secs(60);
/// How often it is looked at meanwhile.
const LOOK: Duration = Duration::from_millis(30);
/// Lines of the log that are shown if it does not.
const LOG_LINES: usize = 12;

/// Makes sure that a server answers: the one that was asked for, or the one of the data folder, or else a new one.
///
/// # Errors
/// If the one that was asked for does not answer, or a new one does not start.
pub async fn ensure_server(args: &ClientArgs) -> anyhow::Result<()> {
    if args.server.is_some() {
        // Whoever names a server wants that one; the first request says whether it is there.
        return Ok(());
    }
    let data = args.data()?;
    let http = http()?;
    if is_ours(&http, &data).await {
        return Ok(());
    }
    data.make()?;
    let mut child = start(&data)?;
    output::note(&format!(
        "baton: no server was running; started one (process {}, log {}). It stays: stop it with `kill {}`",
        child.id(),
        data.log().display(),
        child.id()
    ));
    let since = Instant::now();
    while since.elapsed() < READY_MOST {
        let running = data.running().filter(|running| running.pid == child.id());
        if let Some(running) = running
            && is_ready(&http, &running.url).await
        {
            return Ok(());
        }
        if let Some(status) = child.try_wait().context("waiting for the server")? {
            return Err(Refusal::failed(format!("the server did not start ({status}):\n{}", tail(&data)), "see above"));
        }
        sleep(LOOK).await;
    }
    // It is ours and nobody can use it.
    let _ = child.kill();
    let _ = child.wait();
    Err(Refusal::failed(
        format!("the server was not ready after {} s:\n{}", READY_MOST.as_secs(), tail(&data)),
        "try `baton doctor`",
    ))
}

/// Whether the server that the data folder's note names answers. Without a note, whoever has the usual port serves other data.
async fn is_ours(http: &reqwest::Client, data: &DataDir) -> bool {
    data.running().is_some() && is_alive(http, &address_of(data)).await
}

fn start(data: &DataDir) -> anyhow::Result<Child> {
    // What the last one said is kept beside it; more than that is not.
    let _ = fs::rename(data.log(), data.log().with_extension("log.old"));
    let log = OpenOptions::new().create(true).append(true).mode(0o600).open(data.log());
    let log = log.with_context(|| format!("cannot write {}", data.log().display()))?;
    // Another program, or a Baton on other data, may have the usual port.
    let port = TcpListener::bind(("127.0.0.1", config::PORT)).map_or(0, |_| config::PORT);
    let program = std::env::current_exe().context("cannot find the program's own file")?;
    Command::new(program)
        .args(["up", "--no-open", "--port", &port.to_string(), "--data"])
        .arg(data.path())
        .stdin(Stdio::null())
        .stdout(log.try_clone().context("the server's log")?)
        .stderr(log)
        // Ctrl-C in this terminal is for the command, not for the server.
        .process_group(0)
        .spawn()
        .context("cannot start a server")
}

fn tail(data: &DataDir) -> String {
    let text = fs::read_to_string(data.log()).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    let last = &lines[lines.len().saturating_sub(LOG_LINES)..];
    last.iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}
